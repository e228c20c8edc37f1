"""The page in a browser: folded, linked, searched, dark and light, and safe with any names."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.browser import PHONE

import whileback

EXAMPLES = Path(__file__).parents[2] / "examples"
Show = Callable[[str], None]


@pytest.fixture(scope="module")
def decay() -> str:
    model = whileback.load(EXAMPLES / "decay.onnx.txt")
    return whileback.to_html(whileback.gradient(model, "loss", ["w", "x"]))


@pytest.fixture
def show(page: Page, tmp_path: Path) -> Show:
    def opened(text: str) -> None:
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")

    return opened


def node(page: Page, made: str) -> Locator:
    """Return the card of the node that makes a value."""
    line = page.locator(".line.made > .text", has_text=made)
    return page.locator(".box.node", has=line).filter(has_text=made).last


def place(locator: Locator) -> dict[str, Any]:
    box = locator.bounding_box()
    assert box is not None
    return dict(box)


def parsed(body: str) -> ir.Model:
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 21]> net {body}')


def chain(length: int) -> ir.Model:
    nodes = " ".join(f"h{i + 1} = Sin(h{i})" for i in range(length))
    return parsed(f"(float[2] h0) => (float[2] h{length}) {{ {nodes} }}")


def test_forward_and_gradient_stand_side_by_side(page: Page, show: Show, decay: str) -> None:
    show(decay)
    assert page.title() == "decay · whileback"
    forward, backward = (page.locator(f".box.node.{lane}.open") for lane in ("forward", "gradient"))
    loop, branch = place(forward.first), place(backward.first)
    assert loop["x"] + loop["width"] < branch["x"]
    assert loop["y"] == pytest.approx(branch["y"], abs=2)


def test_nothing_lies_over_another(page: Page, show: Show, decay: str) -> None:
    show(decay)
    over = page.evaluate(
        """() => [...document.querySelectorAll('.lane')].flatMap((lane) => {
            const boxes = [...lane.children].filter((each) => each.matches('.box'));
            const places = boxes.map((box) => box.getBoundingClientRect());
            return places.flatMap((a, i) => places.slice(i + 1).filter((b) =>
                a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
        }).length"""
    )
    assert over == 0


def test_types_and_tapes_are_told(page: Page, show: Show, decay: str) -> None:
    show(decay)
    expect(node(page, "next")).to_contain_text("FLOAT[]")
    tape = page.locator("#details section", has=page.get_by_role("heading", name="Tapes"))
    expect(tape).to_contain_text("the number of trips is known only when it runs")
    expect(tape).to_contain_text("A trip keeps 4 B:")
    expect(tape).to_contain_text("v FLOAT[] 4 B")
    expect(tape).to_contain_text("carried into the trip")
    scan = page.locator(".box.open", has=page.get_by_role("button", name="Fold Scan")).last
    expect(scan.locator("> .line.across")).to_have_text("reads v/tape")


def test_bodies_fold_and_unfold(page: Page, show: Show, decay: str) -> None:
    show(decay)
    before = place(page.get_by_role("button", name="Fold Loop"))
    page.get_by_role("button", name="Fold Loop").click()
    expect(page.get_by_role("button", name="Unfold Loop")).to_be_visible()
    expect(page.locator(".line", has_text="next")).to_have_count(0)
    page.get_by_role("button", name="Unfold Loop").click()
    expect(page.locator(".line", has_text="next")).to_have_count(1)
    after = place(page.get_by_role("button", name="Fold Loop"))
    assert (after["x"], after["y"]) == pytest.approx((before["x"], before["y"]), abs=40)
    page.locator("#fold").click()
    expect(page.locator(".box.open")).to_have_count(0)
    for _ in range(3):
        page.locator("#unfold").click()
        page.wait_for_timeout(50)
    expect(page.locator(".box.open")).to_have_count(3)


def test_what_stems_from_a_node_is_marked_with_it(page: Page, show: Show, decay: str) -> None:
    show(decay)
    node(page, "Mul/grad/Mul_1").hover()
    expect(page.locator(".box.partner")).to_have_count(1)
    expect(page.locator(".box.partner")).to_contain_text("next")
    expect(page.locator(".overlay .link")).to_have_count(1)
    node(page, "next").hover()
    expect(page.locator(".box.partner")).to_have_count(2)
    page.mouse.move(700, 880)
    expect(page.locator(".box.partner")).to_have_count(0)


def test_a_folded_body_stands_for_what_is_in_it(page: Page, show: Show, decay: str) -> None:
    show(decay)
    page.get_by_role("button", name="Fold Loop").click()
    node(page, "Mul/grad/Mul_1").hover()
    expect(page.locator(".box.partner > .head").filter(has_text="Loop")).to_have_count(1)


def test_a_click_tells_all_of_a_node(page: Page, show: Show) -> None:
    model = parsed("(float[2,3] x) => (float[2,3] y) { y = Elu <alpha = 0.5> (x) }")
    model.graph[0].doc_string = "Bends below zero."
    show(whileback.to_html(model))
    page.locator(".box.node .head").click()
    details = page.locator("#details")
    for text in ("Elu", "Bends below zero.", "alpha", "0.5", "x FLOAT[2,3]", "y FLOAT[2,3]"):
        expect(details).to_contain_text(text)
    page.keyboard.press("Escape")
    expect(details).to_contain_text("ai.onnx@21")


def test_a_click_brings_the_partner_into_view(page: Page, show: Show) -> None:
    show(whileback.to_html(whileback.gradient(chain(60), "h60", "h0", reduce="sum")))
    for _ in range(4):
        page.locator("#in").click()
    page.evaluate("document.querySelector('.box.node.forward').scrollIntoView()")
    card = page.locator(".box.node.forward", has_text="h30").first
    page.locator("#search").fill("h30")
    page.locator("#search").press("Enter")
    card.locator(".head").click()
    partner = page.locator(".box.partner").first
    expect(partner).to_be_in_viewport()
    expect(card).to_be_in_viewport()


def test_search_unfolds_and_centres(page: Page, show: Show, decay: str) -> None:
    show(decay)
    page.locator("#fold").click()
    expect(page.locator(".box.open")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("next")
    expect(page.locator("#results")).to_contain_text("2 nodes")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".hit[aria-selected=true]")).to_contain_text("next")
    page.keyboard.press("Enter")
    found, stage = node(page, "next"), place(page.locator("#stage"))
    expect(page.locator(".box.selected:not(.partner)")).to_contain_text("next")
    box = place(found)
    assert box["x"] + box["width"] / 2 == pytest.approx(stage["x"] + stage["width"] / 2, abs=2)
    page.keyboard.press("Enter")
    expect(page.locator("#details")).to_contain_text("Greater_1")
    page.keyboard.press("Escape")
    expect(page.locator("#search")).to_have_value("")
    expect(page.locator("#results")).to_be_hidden()


def test_arrows_walk_and_enter_folds(page: Page, show: Show) -> None:
    show(whileback.to_html(EXAMPLES / "decay.onnx.txt"))
    node(page, "start").locator(".head").click()
    page.locator("#stage").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".box.selected > .head")).to_contain_text("Loop")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Unfold Loop")).to_be_visible()


def test_wheel_and_drag_move_and_zoom(page: Page, show: Show, decay: str) -> None:
    show(decay)
    loop = page.locator("[data-key=n1]")
    before = place(loop)
    page.mouse.move(600, 500)
    page.mouse.wheel(30, 50)
    assert place(loop) == pytest.approx(before | {"x": before["x"] - 30, "y": before["y"] - 50})
    page.mouse.move(560, 840)
    page.mouse.down()
    page.mouse.move(600, 800)
    page.mouse.move(690, 740)
    page.mouse.up()
    moved = place(loop)
    assert (moved["x"] - before["x"], moved["y"] - before["y"]) == pytest.approx((100, -150), abs=1)
    expect(page.locator(".box.selected")).to_have_count(0)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    assert place(loop)["width"] > 2 * before["width"]
    page.keyboard.press("0")
    assert place(loop)["x"] > 0


def test_functions_unfold_where_they_are_called(page: Page, show: Show) -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
        f (float[2] x) => (float[2] y) { z = own.twice(x) y = own.twice(z) }
        <opset_import: ["" : 21], domain: "own"> twice (a) => (b) { b = Add(a, a) }"""
    )
    show(whileback.to_html(model))
    page.locator("#fold").click()
    expect(page.locator(".box.node")).to_have_count(2)
    page.get_by_role("button", name="Unfold own::twice").first.click()
    expect(page.locator(".box.node .box.node > .head")).to_have_text("Add")


def test_dark_and_light(page: Page, show: Show, decay: str) -> None:
    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    page.emulate_media(color_scheme="dark")
    show(decay)
    dark = ground()
    page.get_by_role("button", name="Dark or light").click()
    light = ground()
    assert sum(map(int, dark[4:-1].split(","))) < 150 < 600 < sum(map(int, light[4:-1].split(",")))
    page.emulate_media(color_scheme="light")
    page.reload()
    assert ground() == light


def test_text_is_told_from_its_ground(page: Page, show: Show, decay: str) -> None:
    """Contrast of at least 4.5, which WCAG 2.2 asks for (1.4.3)."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        show(decay)
        colours = page.evaluate(
            """() => {
                const probe = document.body.appendChild(document.createElement('span'));
                const names = ['ground', 'card', 'bar', 'text', 'muted', 'added', 'removed',
                    'changed', ...['forward', 'gradient', 'update', 'tape'].flatMap(
                        (lane) => [lane, `${lane}-soft`])];
                return Object.fromEntries(names.map((name) => {
                    probe.style.color = `var(--${name})`;
                    return [name, getComputedStyle(probe).color.match(/[0-9]+/g).map(Number)];
                }));
            }"""
        )
        lanes = ("forward", "gradient", "update", "tape")
        pairs = [
            (text, ground) for text in ("text", "muted") for ground in ("ground", "card", "bar")
        ]
        pairs += [(lane, ground) for lane in lanes for ground in ("ground", "card", f"{lane}-soft")]
        pairs += [(text, f"{lane}-soft") for text in ("text", "muted") for lane in lanes]
        pairs += [(kind, "card") for kind in ("added", "removed", "changed")]
        weak = [pair for pair in pairs if contrast(*(colours[name] for name in pair)) < 4.5]
        assert weak == []


def contrast(a: list[int], b: list[int]) -> float:
    def luminance(colour: list[int]) -> float:
        linear = [c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


HOSTILE = (
    "</script><script>window.broken = 1</script>",
    "<img src=x onerror='window.broken = 1'>",
    "'\"><svg onload=window.broken=1>",
    "{{script}} ${window.broken = 1} \\u003c",
    "javascript:window.broken=1",
    "\u202e\u2028\u2029\x00\x07",
    "n1",
    "__proto__",
)


def test_names_are_never_markup(page: Page, show: Show) -> None:
    text = "(float[2] x, float[2] w) => (float[2] y, float[2] z) { y = Mul(x, w) z = Neg(y) }"
    model = parsed(text)
    for name in HOSTILE:
        model.graph.append(ir.node("Neg", [model.graph.inputs[0]], name=name))
        model.graph[-1].outputs[0].name = name
        model.graph[-1].doc_string = model.graph[-1].op_type = name
        model.graph[-1].attributes.add(ir.AttrString(name, name))
        model.graph[-1].metadata_props["whileback.from"] = name
        model.graph[-1].metadata_props["whileback.memory"] = name
    model.graph.name = model.producer_name = model.doc_string = HOSTILE[0]
    show(whileback.to_html(model))
    page.locator("#search").fill("<")
    for box in page.locator(".box.gradient").all():
        box.click(force=True)
        box.hover(force=True)
    assert page.evaluate("window.broken") is None
    assert page.locator("img, #world script, svg[onload]").count() == 0
    assert HOSTILE[0] in page.locator("#name").inner_text()


def test_no_script_but_its_own_runs(browser: Browser, tmp_path: Path, decay: str) -> None:
    page = browser.new_page()
    faults: list[str] = []
    page.on("console", lambda line: faults.append(line.text))
    file = tmp_path / "page.html"
    file.write_text(decay.replace("</body>", "<script>window.broken = 1</script></body>"))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate("window.broken") is None
    assert "Content Security Policy" in faults[0]
    page.close()


@pytest.mark.parametrize("kind", ["flat", "nested"])
def test_5000_nodes_are_seen_at_once_and_found(page: Page, show: Show, kind: str) -> None:
    model = chain(5000) if kind == "flat" else nested(20, 250)
    text = whileback.to_html(model)
    assert len(text) < 300_000 + 5000 * 200
    start = time.perf_counter()
    show(text)
    assert time.perf_counter() - start < 3
    cards = page.locator(".box.node, .box.section").count()
    assert 5 < cards < 60
    page.locator("#search").fill("h4321" if kind == "flat" else "h3_77")
    page.locator("#search").press("Enter")
    expect(page.locator(".box.selected .line.made")).to_contain_text("h")
    expect(page.locator(".box.selected")).to_be_in_viewport()


def nested(depth: int, length: int) -> ir.Model:
    body = ""
    for level in range(depth):
        nodes = " ".join(f"h{level}_{i + 1} = Sin(h{level}_{i})" for i in range(length))
        loop = f"y{level} = Loop(m, , h{level}_{length}) <body = b{level} {body}>" if body else ""
        result = f"y{level}" if body else f"h{level}_{length}"
        body = (
            f"(int64 i{level}, bool c{level}, float[2] h{level}_0) => (bool d{level}, float[2] "
            f"{result}) {{ d{level} = Identity(c{level}) {nodes} {loop} }}"
        )
    return parsed(f"(int64 m, float[2] x) => (float[2] y) {{ y = Loop(m, , x) <body = b {body}> }}")


@pytest.mark.parametrize(
    "body", ["{ y = Identity(x) }", "{ y = Constant<value_float = 1.0>() }", "{}"]
)
def test_next_to_nothing(page: Page, show: Show, body: str) -> None:
    show(whileback.to_html(parsed(f"(float x) => (float y) {body}")))
    expect(page.locator(".box", has_text="x")).not_to_have_count(0)
    page.locator("#unfold").click()
    page.locator(".box").last.click()


def test_what_cannot_be_laid_out_is_told(browser: Browser, tmp_path: Path, decay: str) -> None:
    page = browser.new_page()
    file = tmp_path / "page.html"
    file.write_text(decay.replace("dagre.layout(graph)", "throw Error('too large')"))
    page.goto(file.as_uri())
    expect(page.locator("#progress")).to_contain_text("This cannot be laid out:")
    expect(page.locator("#progress")).to_contain_text("too large")
    page.close()


@pytest.mark.parametrize("kind", ["added", "removed"])
def test_what_changed_is_marked_and_listed(page: Page, show: Show, kind: str) -> None:
    text = "(float[2] x) => (float[2] y) {{ a = Elu<alpha = {}>(x) b = {} y = Neg(b) }}"
    models = [parsed(text.format(0.5, "Exp(a)")), parsed(text.format(0.7, "Exp(c) c = Sin(a)"))]
    models[1].graph.sort()
    before, after = models if kind == "added" else reversed(models)
    show(whileback.to_html(after, before=before))
    assert page.locator(f".box.changes.{kind} > .head").all_inner_texts() == ["Sin"]
    assert page.locator(".box.changes.changed > .head").all_inner_texts() == ["Elu", "Exp"]
    assert page.locator(".box.node").count() == 4
    changes = page.locator("#details section", has=page.get_by_role("heading", name="Changes"))
    expect(changes).to_contain_text("alpha: 0.5 → 0.7" if kind == "added" else "alpha: 0.7 → 0.5")


def test_by_thumb_on_a_phone(browser: Browser, tmp_path: Path, decay: str) -> None:
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    page = context.new_page()
    faults: list[Exception] = []
    page.on("pageerror", lambda error: faults.append(error))
    file = tmp_path / "page.html"
    file.write_text(decay, encoding="utf-8")
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    before = place(page.locator(".box.open").first)["width"]
    pinch(page, 100, 260, 60, 90)
    assert place(page.locator(".box.open").first)["width"] == pytest.approx(1.5 * before, rel=0.1)
    page.get_by_role("button", name="Fold Loop").tap()
    page.get_by_role("button", name="Unfold Loop").wait_for()
    page.locator("[data-key=n1] > .line").first.tap()
    details = page.locator("#details")
    expect(details).to_contain_text("A trip keeps 4 B:")
    assert place(details)["height"] < PHONE["height"] / 2
    for button in page.locator("button:visible:is(header *, .zoom *)").all():
        assert min(place(button)["width"], place(button)["height"]) >= 40
    assert not faults
    context.close()


def pinch(page: Page, x: int, y: int, start: int, end: int) -> None:
    """Move two fingers away from each other, from a distance to another one."""
    session = page.context.new_cdp_session(page)
    for kind, spread in (
        ("touchStart", start),
        ("touchMove", (start + end) // 2),
        ("touchMove", end),
    ):
        points = [{"x": x - spread / 2, "y": y, "id": 0}, {"x": x + spread / 2, "y": y, "id": 1}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
