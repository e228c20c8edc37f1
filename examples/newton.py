"""Square roots by Newton's iteration: a while loop, and the gradient through all of its trips.

Nobody knows beforehand how many trips the loop makes: it stops when x² is close enough to a. The
gradient graph makes as many trips, backwards, whatever a is. Run with `make demo`.
"""

import math

import onnx.parser

import whileback

# No trip limit (""), only the condition |x² - a| > tolerance·a.
MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
newton (double a) => (double root, int64 trips)
<double one = {1}, double half = {0.5}, double tolerance = {1e-12}, int64 zero = {0}> {
    start = Cast <to = 9> (one)
    root, trips = Loop ("", start, one, zero) <
        body = step (int64 i, bool go_on, double x, int64 n)
            => (bool more, double better, int64 count) <int64 trip = {1}> {
            quotient = Div (a, x)
            sum = Add (x, quotient)
            better = Mul (half, sum)
            square = Mul (better, better)
            difference = Sub (square, a)
            distance = Abs (difference)
            allowed = Mul (tolerance, a)
            more = Greater (distance, allowed)
            count = Add (n, trip)
        }>
}
"""


def main() -> None:
    """Print the gradient graph, and its values beside those of two other ways to get them."""
    model = onnx.parser.parse_model(MODEL)
    gradient_model = whileback.gradient(model, of="root", wrt="a")
    print("Newton's iteration as a while loop, and below it the loop of its gradient:\n")
    print(whileback.show(gradient_model))

    root = whileback.compile(model)
    gradient = whileback.compile(gradient_model)
    print("\nThe same graph for every a, whatever number of trips it takes:\n")
    print(
        f"{'a':>10} {'trips':>6} {'root':>12} {'gradient':>14} {'1/(2·√a)':>14} {'differences':>14}"
    )
    for a in (0.01, 2.0, 100.0, 1e6, 1e12):
        results = gradient(a=a)
        step = 1e-5 * a
        difference = (root(a=a + step)["root"] - root(a=a - step)["root"]) / (2 * step)
        exact = 0.5 / math.sqrt(a)
        print(
            f"{a:10g} {results['trips']:6} {results['root']:12.6g} {results['a_grad']:14.8g} "
            f"{exact:14.8g} {difference:14.8g}"
        )
        if not math.isclose(results["a_grad"], exact, rel_tol=1e-6):
            raise SystemExit(f"The gradient at {a} is wrong.")
    print("\nThe report of whileback.check at a = 2:\n")
    report = whileback.check(model, of="root", wrt="a", inputs={"a": 2.0})
    print(report)
    if not report.ok:
        raise SystemExit("The gradient is wrong.")


if __name__ == "__main__":
    main()
