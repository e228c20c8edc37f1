"""`train`, `export` and `artifacts`, from their words to their files and their text."""

from __future__ import annotations

import io
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file
from tests.cli.conftest import Command
from tests.trainer.models import data, model

import whileback
from whileback import training
from whileback.cli.training import bar
from whileback.cli.training.recipe import StepRecipe

LEARN = ("--loss", "cross-entropy", "--label", "y", "--optimizer", "adamw")
TRAIN = ("train", "model.onnx", "--data", "train.npz", *LEARN, "--lr", "0.1")
SHORT = (*TRAIN, "--epochs", "2", "--batch", "25", "--out", "run")
SAID = "loss: cross-entropy of 'z', the logits of 'p', which node 'Softmax' (Softmax) makes\n"


@pytest.fixture
def files(command: Command) -> Command:
    """A classifier, and examples for it."""
    whileback.save(model(), "model.onnx")
    for name, seed in (("train", 1), ("test", 2)):
        arrays = data(50, seed)
        np.savez(f"{name}.npz", x=arrays["x"], y=arrays["label"])
    return command


def test_train_then_export(files: Command) -> None:
    result = files(*TRAIN, "--epochs", "3", "--batch", "25", "--eval", "test.npz", "--out", "run")
    lines = [json.loads(line) for line in Path("run/log.jsonl").read_text().splitlines()]
    means = [line["mean"]["loss"] for line in lines if "mean" in line]
    tests = [line["evaluation"] for line in lines if "evaluation" in line]
    assert result.err == ""
    assert result.out == SAID + (
        "23 numbers in 4 tensors are trained, on 50 examples in 2 batches\n"
        + "".join(
            f"epoch {i + 1}/3: loss {means[i]:.4g}; evaluation: loss {tests[i]['loss']:.4g}, "
            f"accuracy {100 * tests[i]['accuracy']:.2f} %\n"
            for i in range(3)
        )
        + f"3 epochs, 6 steps, best evaluation: loss {min(t['loss'] for t in tests):.4g}; "
        "whileback export run -o FILE writes the model\n"
    )
    assert files("export", "run", "-o", "tuned.onnx") == (
        0,
        "'tuned.onnx' has the parameters after step 6: run/best.safetensors\n",
        "",
    )
    tuned, original = onnx.load("tuned.onnx"), onnx.load("model.onnx")
    assert tuned.graph.input == original.graph.input
    assert tuned.graph.output == original.graph.output
    assert tuned.opset_import == original.opset_import
    arrays = data(50, 2)
    guesses = whileback.compile("tuned.onnx")(x=arrays["x"])["p"].argmax(1)
    assert float((guesses == arrays["label"]).mean()) == pytest.approx(tests[-1]["accuracy"])


def test_a_run_goes_on(files: Command) -> None:
    """The same as one that was not stopped, and nothing but more epochs may be asked for."""
    whole = (*TRAIN, "--batch", "25", "--epochs")
    assert files(*whole, "4", "--out", "whole").status == 0
    assert files(*whole, "2", "--out", "run").status == 0
    assert files(*whole, "4", "--out", "run") == (
        1,
        "",
        "error: 'run': holds a run; go on with --resume, replace it with --force, or name another "
        "folder\n",
    )
    Path("model.onnx").rename("moved.onnx")
    result = files(*whole, "4", "--out", "run", "--resume")
    assert result.out.splitlines()[2].startswith("epoch 3/4: loss ")
    both = [load_file(f"{name}/last.safetensors") for name in ("whole", "run")]
    for name, array in both[0].items():
        np.testing.assert_array_equal(array, both[1][name])


def test_a_run_goes_on_with_what_it_was_begun_with(files: Command) -> None:
    assert files(*SHORT).status == 0
    assert files(*SHORT, "--resume", "--clip-norm", "1").err == (
        "error: 'run' was begun with no --clip-norm, but now it is --clip-norm 1.0. Go on with the "
        "same, or begin another run.\n"
    )
    whileback.save(training.export(model(), {"b": np.ones(3, "f")}), "model.onnx", overwrite=True)
    assert files(*SHORT, "--resume").err == (
        "error: 'model.onnx' is not the model that 'run' was begun with: its content is another "
        "one. Give that, or begin another run.\n"
    )
    assert files(*SHORT, "--force").status == 0
    assert files(*SHORT, "--resume").out.splitlines()[2].startswith("2 epochs, 4 steps; ")


def test_ctrl_c_leaves_a_checkpoint(files: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(self: bar.Bar, moment: training.Moment) -> None:
        if moment.step == 3:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(bar.Bar, "step", press)
        result = files(*SHORT)
    assert result.status == 130
    assert result.err == "interrupted after step 3; go on with the same command and --resume\n"
    assert files(*SHORT, "--resume").status == 0
    stopped = load_file("run/last.safetensors")
    assert files(*SHORT, "--force").status == 0
    for name, array in load_file("run/last.safetensors").items():
        np.testing.assert_array_equal(array, stopped[name])


def test_a_run_that_was_killed_as_it_began(files: Command) -> None:
    assert files(*SHORT).status == 0
    for name in ("last.safetensors", "log.jsonl", "model.onnx"):
        Path("run", name).unlink()
    Path("run/.model.onnx.1234.tmp").write_bytes(b"")
    assert files(*SHORT, "--resume").status == 0
    assert sorted(path.name for path in Path("run").iterdir()) == [
        "last.safetensors",
        "log.jsonl",
        "model.onnx",
        "run.json",
    ]
    Path("half").mkdir()
    Path("half/.run.json.1234.tmp").write_bytes(b"")
    assert files(*SHORT[:-1], "half").status == 0


def test_folders_that_hold_no_run(files: Command) -> None:
    inside = (*TRAIN, "--epochs", "1", "--out")
    assert files(*inside, ".", "--force").err == (
        "error: '.': holds other files, and no run; name a new folder\n"
    )
    assert files(*inside, "train.npz").err == ("error: 'train.npz' is a file; name a folder\n")
    assert files(*inside, "a/b").err == (
        f"error: 'a/b': there is no folder '{Path('a').absolute()}'; make it first\n"
    )
    assert files("export", ".", "-o", "t.onnx").err == (
        "error: '.': holds no run; give the folder of --out of whileback train\n"
    )
    assert files(*SHORT).status == 0
    assert files("export", "run", "--best", "-o", "t.onnx").err == (
        "error: 'run' has no 'best.safetensors': no epoch was evaluated; take --last, or train "
        "with --eval\n"
    )
    assert files("export", "run", "--average", "-o", "t.onnx").err.startswith(
        "error: The step keeps no moving averages."
    )
    assert not Path("t.onnx").exists()
    Path("run/run.json").write_text("{}")
    assert files("export", "run", "-o", "t.onnx").err == (
        "error: 'run/run.json': is of another version of whileback; take the one that wrote it\n"
    )


def test_a_schedule_counts_updates(files: Command) -> None:
    words = ("--accumulate", "2", "--schedule", "linear", "--log-every", "1", "--out", "a run")
    result = files(*SHORT, *words)
    assert result.out.endswith("; whileback export 'a run' -o FILE writes the model\n")
    lines = [json.loads(line) for line in Path("a run/log.jsonl").read_text().splitlines()]
    rates = [line["train"]["learning_rate"] for line in lines if "train" in line]
    assert rates == [rates[0], rates[0], rates[0] / 2, rates[0] / 2]


def test_a_run_that_cannot_begin_replaces_none(
    files: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert files(*SHORT).status == 0
    before = Path("run/last.safetensors").read_bytes()
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    result = files(*SHORT, "--force", "--tensorboard")
    assert result.status == 1
    assert "pip install 'whileback[tensorboard]'" in result.err
    assert Path("run/last.safetensors").read_bytes() == before


def test_adapters_and_averages(files: Command) -> None:
    words = ("--lora", "w", "--lora-rank", "1", "--average", "0.5", "--schedule", "cosine")
    assert files(*SHORT, *words).status == 0
    assert files("export", "run", "-o", "last.onnx").status == 0
    assert files("export", "run", "--average", "-o", "average.onnx").status == 0
    tensors = [
        {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(name).graph.initializer}
        for name in ("model.onnx", "last.onnx", "average.onnx")
    ]
    assert tensors[0].keys() == tensors[1].keys() == tensors[2].keys()
    changes = [np.abs(each["w"] - tensors[0]["w"]).max() for each in tensors]
    assert 0 < changes[2] < changes[1]


def test_several_losses(files: Command) -> None:
    """A label that has the name of an output is an input of another name."""
    arrays = data()
    np.savez("two.npz", x=arrays["x"], p=arrays["label"], n=arrays["x"])
    losses = ("--loss", "cross-entropy:p=p", "--loss", "mse,weight=0.5:n=n")
    words = ("--optimizer", "sgd,momentum=0.9", "--lr", "0.01", "--epochs", "1")
    result = files("train", "model.onnx", "--data", "two.npz", *losses, *words, "--out", "run")
    assert result.status == 0
    assert result.out.splitlines()[1:3] == [
        "loss_1: mse of 'n' as it is",
        "23 numbers in 4 tensors are trained, on 50 examples in 2 batches",
    ]


SEQUENCES = """<ir_version: 10, opset_import: ["" : 21]>
sums (float[T,N,3] x, float[2,N,3] s) => (float[N,3] z) <float[3,3] w = {1,0,0,0,1,0,0,0,1}> {
    first = Constant<value_ints = [0]>()
    both = Concat<axis = 0>(s, x)
    r = ReduceSum<keepdims = 0>(both, first)
    z = MatMul(r, w)
}"""


def test_examples_along_another_axis(command: Command) -> None:
    """The means of an evaluation are over examples, however many steps a sequence has."""
    x = np.random.default_rng(0).normal(size=(5, 4, 3)).astype("f")
    np.savez("d.npz", x=x, label=np.array([0, 1, 2, 0, 1]))
    Path("sums.onnx.txt").write_text(SEQUENCES)
    data = ("--data", "d.npz", "--eval", "d.npz", "--axis", "x=1", "s=1", "--input", "s=0")
    words = ("--loss", "cross-entropy", "--optimizer", "sgd", "--epochs", "1", "--batch", "2")
    result = command("train", "sums.onnx.txt", *data, *words, "--lr", "1e-9", "--out", "run")
    assert result.status == 0, result.err
    logits = x.sum(1)
    log = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    loss = -log[np.arange(5), [0, 1, 2, 0, 1]].mean()
    last = json.loads(Path("run/log.jsonl").read_text().splitlines()[-1])
    assert last["evaluation"]["loss"] == pytest.approx(loss, rel=1e-5)
    assert last["evaluation"]["accuracy"] == (logits.argmax(1) == [0, 1, 2, 0, 1]).mean()


BRANCHES = """<ir_version: 10, opset_import: ["" : 21]>
chosen (float[N,2] x, bool c) => (float[N,2] z) <float[2,2] w = {1,0,0,1}> {
    h = MatMul(x, w)
    z = If(c) <then_branch = a () => (float[N,2] y) { y = Tanh(h) },
               else_branch = b () => (float[N,2] q) { q = Sin(h) }>
}"""


@pytest.mark.parametrize("label", ["y", "z", "w", "h", "label", "x"])
def test_labels_of_any_name(command: Command, label: str) -> None:
    """A label is what the data calls so, whatever else the model calls so; an input is itself."""
    x = np.ones((4, 2), "f")
    np.savez("d.npz", **{"x": x, label: x if label == "x" else 3 * x})
    Path("m.onnx.txt").write_text(BRANCHES)
    words = ("--loss", "mse", "--label", label, "--optimizer", "sgd", "--epochs", "1")
    words += ("--lr", "1e-9", "--input", "c=true", "--out", "run")
    assert command("train", "m.onnx.txt", "--data", "d.npz", *words).err == ""
    mean = json.loads(Path("run/log.jsonl").read_text().splitlines()[-1])["mean"]
    expected = (np.tanh(1) - (1 if label == "x" else 3)) ** 2
    assert mean["loss"] == pytest.approx(expected, rel=1e-5)


def test_artifacts_are_a_step_for_others(files: Command) -> None:
    assert files("artifacts", "model.onnx", *LEARN, "-o", "art") == (0, SAID, "")
    assert sorted(path.name for path in Path("art").iterdir()) == [
        "README.md",
        "checkpoint.safetensors",
        "eval.onnx",
        "interface.json",
        "training_step.onnx",
    ]
    trained = follow_the_interface(Path("art"))
    trainer = training.Trainer(training.step(model(), "cross-entropy", "adamw"))
    for _ in range(3):
        trainer.step(data(), 0.1)
    for name, array in trainer.state().items():
        np.testing.assert_array_equal(trained[name], array)
    result = files("artifacts", "model.onnx", *LEARN, "-o", "art")
    assert result.err == (
        "error: 'art/training_step.onnx' exists; choose another folder, or replace it with --force "
        "(in Python overwrite=True)\n"
    )
    assert files("artifacts", "model.onnx", *LEARN, "-o", "model.onnx", "--force").err == (
        "error: 'model.onnx' is a file; name a folder\n"
    )
    assert files("artifacts", "model.onnx", *LEARN, "-o", "art", "--force", "--flat").status == 0
    said = json.loads(Path("art/interface.json").read_text())
    assert [part["name"] for part in said["parameters"]] == ["b", "c", "s", "w"]
    assert [p["name"] for p in said["step"]["inputs"] if p["role"] == "parameter"] == ["parameters"]
    assert sum(p["role"] == "parameter" for p in said["evaluation"]["inputs"]) == 4


def test_what_others_have_trained_is_exported(files: Command) -> None:
    save_file({"b": np.array([1, 2, 3], "f")}, "trained.safetensors")
    words = ("export", "model.onnx", "--from")
    assert files(*words, "trained.safetensors", "-o", "tuned.onnx") == (
        0,
        "'tuned.onnx' has the tensors of 'trained.safetensors'\n",
        "",
    )
    assert whileback.load("tuned.onnx").graph.initializers["b"].const_value.numpy().tolist() == [
        1,
        2,
        3,
    ]
    assert files(*words, "trained.safetensors", "--average", "-o", "t.onnx").err == (
        "error: 'trained.safetensors': holds no moving averages: it is no checkpoint\n"
    )
    save_file({"q": np.zeros(3, "f")}, "other.safetensors")
    assert files(*words, "other.safetensors", "-o", "t.onnx").err.startswith(
        "error: Model 'model' holds no tensor 'q'; there are 6: "
    )
    Path("cut.safetensors").write_bytes(Path("other.safetensors").read_bytes()[:-4])
    assert files(*words, "cut.safetensors", "-o", "t.onnx").err.startswith(
        "error: 'cut.safetensors': is damaged or truncated ("
    )
    assert files(*words, "none.safetensors", "-o", "t.onnx").err == (
        "error: 'none.safetensors': is no file; name a checkpoint, or tensors as .safetensors\n"
    )
    assert not Path("t.onnx").exists()


def follow_the_interface(folder: Path) -> dict[str, Any]:
    """Make three steps, and evaluate, knowing nothing but what the folder says."""
    said = json.loads((folder / "interface.json").read_text())
    step = whileback.compile(folder / said["step"]["file"])
    kept: dict[str, Any] = dict(load_file(folder / said["checkpoint"]["file"]))
    for _ in range(3):
        arrays = data()
        feeds = {"x": arrays["x"], "y": arrays["label"]}
        feeds |= {
            port["name"]: 0.1 for port in said["step"]["inputs"] if port["role"] == "learning_rate"
        }
        out = step({**feeds, **kept})
        kept = {p["name"]: out[p["next"]] for p in said["step"]["inputs"] if "next" in p}
    evaluation = whileback.compile(folder / said["evaluation"]["file"])
    values = {p["name"]: kept[p["name"]] for p in said["evaluation"]["inputs"] if p["name"] in kept}
    after = evaluation({"x": arrays["x"], "y": arrays["label"], **values})
    assert after[said["loss"]] < 3
    return kept


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--optimizer", "sgd,momentun=0.9"),
            "--optimizer sgd,momentun=0.9: 'sgd' has no setting 'momentun'; did you mean "
            "'momentum'?",
        ),
        (
            ("--optimizer", "smd"),
            "--optimizer smd: 'smd' is unknown; did you mean 'sgd'?",
        ),
        (
            ("--loss", "cross-entropy,label_smoothing=a"),
            "--loss cross-entropy,label_smoothing=a: label_smoothing='a' is not a number.",
        ),
        (
            ("--loss", "cross-entropy,class_weights=3"),
            "--loss cross-entropy,class_weights=3: class_weights=3 is not a list of which each is "
            "a number.",
        ),
        (
            ("--optimizer", "adam,betas=0.9"),
            "--optimizer adam,betas=0.9: betas=0.9 is not a list of 2 numbers, such as [0.5, 0.5].",
        ),
        (
            ("--schedule", "step,every=x"),
            "--schedule step,every=x: every='x' is not a whole number or a list of which each is "
            "a whole number.",
        ),
        (
            ("--group", "b,optimizer=3"),
            "--group b,optimizer=3: optimizer=3 is not a name.",
        ),
        (("--lr", "-1"), "--lr -1.0 is no learning rate; give a number above 0, such as 1e-3."),
        (
            ("--input", "x"),
            "--input x is not of the form INPUT=NAME, such as x=pixels.",
        ),
        (
            ("--dropout", "much"),
            "--dropout much is no ratio; give one, such as 0.1, or on or off, or PATTERN=RATIO for "
            "the nodes that it fits.",
        ),
        (
            ("--schedule", "cosin"),
            "schedule='cosin' is unknown; did you mean 'cosine' or 'cosine-restarts'?",
        ),
        (
            ("--memory", "kep"),
            'memory=\'kep\' is unknown; give "keep", "recompute", "checkpoint" or '
            "budget(frames=…).",
        ),
        (
            ("--group", "b"),
            "--group b says nothing of these parameters; give a setting: b,rate=10",
        ),
        (
            ("--accumulate", "5"),
            "--accumulate 5: there are 4 batches in all epochs, so that no step would be made. "
            "Accumulate fewer, or give more epochs or smaller batches.",
        ),
        (("--batch", "0"), "--batch 0 is no number of examples; give one from 1."),
        (("--warmup", "-1"), "--warmup -1 is no number of steps; give one from 0."),
        (
            ("--dropout", "0.1", "head*=0.2"),
            "--dropout 0.1 is said of all nodes, and others of some: say it once for all, or "
            "PATTERN=RATIO for each.",
        ),
        (("--threads", "-1"), "threads=-1 is no number of threads. Give one from 0."),
        (("--epochs", "0"), "epochs=0 is no whole number above 0. Give one."),
        (
            ("--data", "x=x.npy", "y.npz"),
            "x=x.npy y.npz: give files or folders, or NAME=FILE.npy for each array.",
        ),
        (
            ("--input", "x=a", "q=3"),
            "Step 'model' has no input 'q'; there are 2: 'x', 'y'",
        ),
    ],
)
def test_words_that_say_nothing(files: Command, words: tuple[str, ...], message: str) -> None:
    dropped = {"--loss", "cross-entropy"} if "--loss" in words else set()
    first = [word for word in SHORT if word not in dropped]
    assert files(*first, *words) == (1, "", f"error: {message}\n")
    assert not Path("run").exists()


def test_every_setting_of_a_step_is_an_option(files: Command) -> None:
    """What goes on the command line arrives in the step."""
    words = ("--accumulate", "2", "--precision", "float16", "--no-decay", "b", "--trainable", "w")
    words += ("b", "--clip-value", "1", "--clip-norm", "1", "--group", "b,rate=10", "--average")
    assert files("artifacts", "model.onnx", *LEARN, *words, "0.9", "-o", "art").status == 0
    known = training.interface(whileback.load("art/training_step.onnx"))
    assert (known.accumulate, known.parameters) == (2, ["w", "b"])
    assert known.averages == {"w": "w_average", "b": "b_average"}
    assert {"loss_scale", "w_sum"} <= set(known.state)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(bar, "_DRAWN", 0)
    monkeypatch.setattr(bar.time, "monotonic", iter([0.0, 0.5, 1.0]).__next__)
    with bar.Bar(2) as shown:
        shown.step(training.Moment(1, 0, 0, 4, {"loss": 2.0}))
        shown.step(training.Moment(2, 0, 1, 4, {"loss": 1.0}))
        shown.epoch(training.Outcome(4, 1, {"loss": 1.0}, {"loss": 1.5, "accuracy": 0.5}, 1.5))
    assert stream.getvalue() == (
        "\r\x1b[Kepoch 1/2  ━━━━━───────────────  1/4  loss 2  500 ms/step  0:03 left"
        "\r\x1b[Kepoch 1/2  ━━━━━━━━━━──────────  2/4  loss 1  500 ms/step  0:03 left"
        "\r\x1b[K\r\x1b[K"
    )
    assert capsys.readouterr().out == (
        "epoch 1/2: loss 1; evaluation: loss 1.5, accuracy 50.00 %\n"
    )


def test_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(bar.time, "monotonic", iter([0.0, 1.0, 31.0]).__next__)
    with bar.Bar(2) as shown:
        for step in range(2):
            shown.step(training.Moment(step + 1, 0, step, None, {"loss": 2.0}))
    assert stream.getvalue() == "epoch 1/2  step 2  loss 2  1.55e+04 ms/step\n"


def test_the_page_on_training_has_every_option(command: Command) -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    for name in ("train", "export", "artifacts"):
        options = set(re.findall(r"(--[a-z-]+)", command(name, "-h").out.partition("\n\n")[0]))
        assert options and {each for each in options if each not in page} == set()


def test_recipes_are_json() -> None:
    recipe = StepRecipe.of(parsed(*SHORT))
    assert StepRecipe(**json.loads(json.dumps(vars(recipe)))) == recipe


@pytest.mark.parametrize(("words", "kept"), [((), ["m", "v"]), (("running",), [])])
def test_statistics_stay_where_that_is_said(words: tuple[str, ...], kept: list[str]) -> None:
    said = ("--statistics", *words) if words else ()
    made = StepRecipe.of(parsed(*SHORT, *said)).make(model())
    assert training.interface(made.step).statistics == kept


def parsed(*words: str) -> Any:
    from whileback.cli.parser import parse

    return parse(words)
