"""One function per command; each returns the exit status."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx_ir as ir

import whileback
from whileback.checking.junit import to_junit
from whileback.cli.arrays import describe_output, read_inputs, save_outputs
from whileback.cli.memory import read_implicit, read_memory, read_truncation
from whileback.cli.progress import Progress
from whileback.errors import ArgumentError
from whileback.formats.atomic import require_free, write_file
from whileback.formats.caffe2 import is_caffe2
from whileback.formats.json_document import to_json
from whileback.gradient.catalogue import Coverage, catalogue, find
from whileback.profiling.flame import to_folded, to_svg
from whileback.profiling.table import to_table
from whileback.showing.summary import summarize

__all__ = [
    "check",
    "convert",
    "diff",
    "gradient",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "profile",
    "rules",
    "run",
    "show",
    "vjp",
]


def gradient(arguments: argparse.Namespace) -> int:
    """`whileback gradient`: write the model, or Caffe2's net, with its gradients."""
    if is_caffe2(arguments.output):
        _require_free(arguments.output, arguments.force)
        status: int = _nets().gradient(arguments)
        return status
    return _differentiate(arguments, whileback.gradient, reduce=arguments.reduce)


def vjp(arguments: argparse.Namespace) -> int:
    """`whileback vjp`: write the model with its vector-Jacobian products."""
    return _differentiate(arguments, whileback.vjp)


def jvp(arguments: argparse.Namespace) -> int:
    """`whileback jvp`: write the model with its derivatives along a direction."""
    return _differentiate(arguments, whileback.jvp)


def hvp(arguments: argparse.Namespace) -> int:
    """`whileback hvp`: write the model with gradients and products with the Hessian."""
    return _differentiate(arguments, whileback.hvp, reduce=arguments.reduce)


def jacobian(arguments: argparse.Namespace) -> int:
    """`whileback jacobian`: write the model with all its derivatives."""
    return _differentiate(arguments, whileback.jacobian)


def hessian(arguments: argparse.Namespace) -> int:
    """`whileback hessian`: write the model with gradients and all second derivatives."""
    return _differentiate(arguments, whileback.hessian, reduce=arguments.reduce)


def convert(arguments: argparse.Namespace) -> int:
    """`whileback convert`: write Caffe2's net as an ONNX model."""
    _require_free(arguments.output, arguments.force)
    with Progress(f"converting {arguments.model}") as progress:
        model = _opened(arguments)
        lines = _nets().check_recorded(model, arguments.check) if arguments.check else []
        whileback.save(model, arguments.output, overwrite=arguments.force, progress=progress.copied)
    for line in lines:
        print(line)
    return 0


def check(arguments: argparse.Namespace) -> int:
    """`whileback check`: print a verdict for each value, and write it as a JUnit report."""
    if arguments.junit:
        _require_free(arguments.junit, arguments.force)
    inputs = read_inputs(arguments.inputs)
    with Progress(f"checking {arguments.model}"):
        model = _opened(arguments, inputs)
        report = whileback.check(
            model,
            _targets(arguments, model),
            arguments.wrt,
            inputs,
            quantized=arguments.quantized,
            **_loop_options(arguments),
            seed=arguments.seed,
        )
    if arguments.junit:
        write_file(Path(arguments.junit), to_junit(report, arguments.model))
    print(to_json({"model": arguments.model, **report.to_dict()}) if arguments.json else report)
    return report.status


def run(arguments: argparse.Namespace) -> int:
    """`whileback run`: print the outputs, and save them."""
    if arguments.output:
        _require_free(arguments.output, arguments.force)
    inputs = read_inputs(arguments.inputs)
    if is_caffe2(arguments.model) and arguments.engine:
        raise ArgumentError(
            f"--engine is for models, and '{arguments.model}' is a net of Caffe2's. Leave it out, "
            "or make a model of the net with `whileback convert`."
        )
    explanation = "A net of Caffe2's is run operator by operator: nothing is compiled."
    with Progress(f"running {arguments.model}"):
        if is_caffe2(arguments.model):
            outputs = _nets().run(arguments, inputs)
        else:
            compiled = whileback.compile(arguments.model, arguments.engine or "onnxruntime")
            outputs = compiled(inputs)
            explanation = compiled.explain()
    for name, value in outputs.items():
        print(describe_output(name, value))
    if arguments.explain:
        print(explanation)
    if arguments.output:
        save_outputs(outputs, arguments.output)
    return 0


def show(arguments: argparse.Namespace) -> int:
    """`whileback show`: print the model, or what there is to know of it first, or draw it."""
    if arguments.html:
        return _draw(arguments)
    if arguments.json and arguments.depth is not None:
        raise ArgumentError("--json tells what the whole model is; leave --depth out.")
    with Progress(f"reading {arguments.model}"):
        model = _opened(arguments)
        if arguments.json:
            text = to_json({"model": arguments.model, **summarize(model).to_dict()})
        else:
            text = whileback.show(
                model, everything=arguments.all, node=arguments.node, depth=arguments.depth
            )
    print(text)
    return 0


def _draw(arguments: argparse.Namespace) -> int:
    if arguments.depth is not None:
        raise ArgumentError("Bodies are unfolded in the page of --html; leave --depth out.")
    _require_free(arguments.html, arguments.force)
    with Progress(f"drawing {arguments.model}"):
        text = whileback.to_html(_opened(arguments))
    write_file(Path(arguments.html), text.encode())
    return 0


def diff(arguments: argparse.Namespace) -> int:
    """`whileback diff`: print what changed from one model to another, and draw it."""
    if arguments.html:
        _require_free(arguments.html, arguments.force)
    files = (arguments.model, arguments.other)
    with Progress(f"comparing {arguments.model} with {arguments.other}"):
        before, after = (_one_of_two(arguments, file) for file in files)
        found = whileback.diff(before, after)
        if arguments.html:
            page = whileback.to_html(after, before=before)
            write_file(Path(arguments.html), page.encode())
    if arguments.json:
        print(to_json({"before": files[0], "after": files[1], **found.to_dict()}))
    else:
        print(found.to_text(everything=arguments.all))
    return 0 if found.is_empty else 1


def _one_of_two(arguments: argparse.Namespace, file: str) -> ir.Model:
    """Return the model of a file; what is said of nets is not for a model beside one."""
    words = {**vars(arguments), "model": file}
    if not is_caffe2(file) and (is_caffe2(arguments.model) or is_caffe2(arguments.other)):
        words |= {"init": [], "input": []}
    return _opened(argparse.Namespace(**words))


def profile(arguments: argparse.Namespace) -> int:
    """`whileback profile`: print what nodes take, and draw it."""
    drawings = [
        (file, draw)
        for file, draw in ((arguments.svg, to_svg), (arguments.folded, to_folded))
        if file
    ]
    for file, _ in drawings:
        _require_free(file, arguments.force)
    inputs = read_inputs(arguments.inputs)
    with Progress(f"profiling {arguments.model}"):
        found = whileback.profile(
            _opened(arguments, inputs),
            inputs,
            runs=arguments.runs,
            optimization=arguments.optimization,
            threads=arguments.threads,
            seed=arguments.seed,
        )
    for file, draw in drawings:
        write_file(Path(file), draw(found).encode())
    if arguments.json:
        print(to_json({**found.to_dict(), "model": arguments.model}))
    else:
        print(to_table(found, everything=arguments.all))
    return 0


def rules(arguments: argparse.Namespace) -> int:
    """`whileback rules`: print a line for each operator, or all that is known of one."""
    if arguments.operator:
        found = find(arguments.operator)
        print(f"{found.operator}: {found.status}{f', {found.where}' if found.where else ''}")
        print(found.text)
        return 0
    known = catalogue()
    width = max(len(coverage.operator) for coverage in known)
    for coverage in known:
        print(f"{coverage.operator:{width}}  {_status(coverage)}")
    counts = Counter(coverage.status for coverage in known)
    print(f"{len(known)} operators: {', '.join(f'{n} {s}' for s, n in counts.most_common())}")
    return 0


def _status(coverage: Coverage) -> str:
    detail = coverage.text if coverage.status == "not differentiable" else coverage.where
    return f"{coverage.status}{f': {detail}' if detail else ''}"


def _nets() -> ModuleType:
    """Return what handles Caffe2's files, which takes a while to import."""
    from whileback.cli import caffe2

    return caffe2


def _opened(arguments: argparse.Namespace, inputs: Mapping[str, Any] | None = None) -> ir.Model:
    """Return the model of a file, converted if it is Caffe2's; `inputs` are values for it."""
    if is_caffe2(arguments.model):
        model: ir.Model = _nets().open_model(arguments, inputs)
        return model
    if arguments.init or arguments.input:
        raise ArgumentError(
            f"--init and --input are for Caffe2's nets, and '{arguments.model}' is none."
        )
    return whileback.load(arguments.model)


def _targets(arguments: argparse.Namespace, model: ir.Model) -> list[str]:
    """Return the values that `--of` names: of a blob of a net, what it holds at the end."""
    names: list[str] = arguments.of
    if is_caffe2(arguments.model):
        names = _nets().last_versions(arguments, model)
    return names


def _loop_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what is said of loops, as far as the command has options for it."""
    readers = {"memory": read_memory, "truncate": read_truncation, "implicit": read_implicit}
    return {
        name: read(getattr(arguments, name)) for name, read in readers.items() if name in arguments
    }


def _require_free(path: str, force: bool) -> None:
    """Refuse an output that cannot be written before the work for it begins."""
    require_free(Path(path).absolute(), force)


def _differentiate(
    arguments: argparse.Namespace, transform: Callable[..., ir.Model], **options: Any
) -> int:
    _require_free(arguments.output, arguments.force)
    with Progress(f"differentiating {arguments.model}") as progress:
        model = _opened(arguments)
        result = transform(
            model,
            _targets(arguments, model),
            arguments.wrt,
            quantized=arguments.quantized,
            **_loop_options(arguments),
            opset=arguments.opset,
            ir_version=arguments.ir_version,
            **options,
        )
        whileback.save(
            result,
            arguments.output,
            external_data=arguments.external_data,
            overwrite=arguments.force,
            progress=progress.copied,
        )
    return 0
