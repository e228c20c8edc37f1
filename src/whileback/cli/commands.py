"""One function per command; each returns the exit status."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx_ir as ir

import whileback
from whileback.cli import caffe2
from whileback.cli.arrays import describe_output, read_inputs, save_outputs
from whileback.cli.progress import Progress
from whileback.formats.atomic import require_free
from whileback.gradient.catalogue import Coverage, catalogue, find

__all__ = ["check", "convert", "gradient", "rules", "run", "show", "vjp"]


def gradient(arguments: argparse.Namespace) -> int:
    """`whileback gradient`: write the model, or Caffe2's net, with its gradients."""
    if caffe2.is_net(arguments.output):
        _require_free(arguments)
        return caffe2.gradient(arguments)
    return _differentiate(arguments, whileback.gradient, reduce=arguments.reduce)


def vjp(arguments: argparse.Namespace) -> int:
    """`whileback vjp`: write the model with its vector-Jacobian products."""
    return _differentiate(arguments, whileback.vjp)


def convert(arguments: argparse.Namespace) -> int:
    """`whileback convert`: write Caffe2's net as an ONNX model."""
    _require_free(arguments)
    with Progress(f"converting {arguments.model}") as progress:
        model = caffe2.open_model(arguments)
        lines = caffe2.check_recorded(model, arguments.check) if arguments.check else []
        whileback.save(model, arguments.output, overwrite=arguments.force, progress=progress.copied)
    for line in lines:
        print(line)
    return 0


def check(arguments: argparse.Namespace) -> int:
    """`whileback check`: print a verdict for each value."""
    inputs = read_inputs(arguments.inputs)
    with Progress(f"checking {arguments.model}"):
        model = caffe2.open_model(arguments, inputs)
        options = {"seed": arguments.seed, "quantized": arguments.quantized}
        of = caffe2.last_versions(arguments, model)
        report = whileback.check(model, of, arguments.wrt, inputs, **options)
    print(report)
    return 0 if report.ok else 1


def run(arguments: argparse.Namespace) -> int:
    """`whileback run`: print the outputs, and save them."""
    if arguments.output:
        _require_free(arguments)
    inputs = read_inputs(arguments.inputs)
    with Progress(f"running {arguments.model}"):
        if caffe2.is_net(arguments.model):
            outputs = caffe2.run(arguments, inputs)
        else:
            outputs = whileback.compile(arguments.model)(inputs)
    for name, value in outputs.items():
        print(describe_output(name, value))
    if arguments.output:
        save_outputs(outputs, arguments.output)
    return 0


def show(arguments: argparse.Namespace) -> int:
    """`whileback show`: print the model."""
    with Progress(f"reading {arguments.model}"):
        text = whileback.show(caffe2.open_model(arguments))
    print(text)
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


def _require_free(arguments: argparse.Namespace) -> None:
    """Refuse an output that cannot be written before the work for it begins."""
    require_free(Path(arguments.output).absolute(), arguments.force)


def _differentiate(
    arguments: argparse.Namespace, transform: Callable[..., ir.Model], **options: Any
) -> int:
    _require_free(arguments)
    with Progress(f"differentiating {arguments.model}") as progress:
        model = caffe2.open_model(arguments)
        result = transform(
            model,
            caffe2.last_versions(arguments, model),
            arguments.wrt,
            quantized=arguments.quantized,
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
