"""Where data goes when a model is saved: it stays, is referred to, or is copied whole."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest
from tests.formats.weights import EXTERNAL, MODEL, names, weight, write

from whileback.errors import ArgumentError, FormatError
from whileback.formats import data_layout, from_proto, load, save
from whileback.formats.tensors import places


class TestSaveExternalData:
    def test_in_the_same_folder_it_stays(self, external: Path) -> None:
        save(load(external), external.parent / "out.onnx")
        assert names(external.parent) == ["m.onnx", "out.onnx", "w.bin"]
        tensor = weight(load(external.parent / "out.onnx"))
        assert isinstance(tensor, ir.ExternalTensor)
        assert (tensor.location, tensor.offset, tensor.length) == ("w.bin", 4, 8)

    def test_text_form_refers_to_it_too(self, external: Path) -> None:
        save(load(external), external.parent / "out.onnxtxt")
        assert weight(load(external.parent / "out.onnxtxt")).numpy().tolist() == [1.5, -2.0]

    def test_another_folder_needs_a_choice(self, external: Path, tmp_path: Path) -> None:
        with pytest.raises(FormatError) as caught:
            save(load(external), tmp_path / "out.onnx")
        assert str(caught.value) == (
            f"initializer 'w' of graph 'g': its data lies in '{external.parent / 'w.bin'}', and "
            f"the output in another folder, '{tmp_path}'; choose --external-data reference|copy "
            "(in Python external_data=), or that folder"
        )
        assert names(tmp_path) == ["in"]

    def test_a_choice_that_there_is_not(self, external: Path, tmp_path: Path) -> None:
        with pytest.raises(ArgumentError) as caught:
            save(load(external), tmp_path / "out.onnx", external_data="link")  # type: ignore[arg-type]
        assert str(caught.value) == ("external_data='link' is none of 'reference', 'copy' and None")

    def test_reference_into_a_folder_below(self, external: Path, tmp_path: Path) -> None:
        save(load(external), tmp_path / "out.onnx", external_data="reference")
        assert names(tmp_path) == ["in", "out.onnx"]
        tensor = weight(load(tmp_path / "out.onnx"))
        assert isinstance(tensor, ir.ExternalTensor) and tensor.location == "in/w.bin"
        assert tensor.numpy().tolist() == [1.5, -2.0]

    def test_reference_cannot_leave_the_folder(self, external: Path, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        with pytest.raises(FormatError) as caught:
            save(load(external), tmp_path / "out" / "o.onnx", external_data="reference")
        assert str(caught.value) == (
            f"initializer 'w' of graph 'g': its data lies in '{external.parent / 'w.bin'}', "
            f"outside of the output's folder '{tmp_path / 'out'}', and a reference cannot leave "
            "that folder; use --external-data copy (in Python external_data='copy')"
        )
        assert names(tmp_path / "out") == []

    def test_copy(self, external: Path, tmp_path: Path) -> None:
        model = load(external)
        save(model, tmp_path / "out.onnx", external_data="copy")
        assert names(tmp_path) == ["in", "out.onnx", "out.onnx.data"]
        assert not (tmp_path / "out.onnx.data").is_symlink()
        assert (tmp_path / "out.onnx.data").stat().st_nlink == 1
        tensor = weight(load(tmp_path / "out.onnx"))
        assert isinstance(tensor, ir.ExternalTensor) and tensor.location == "out.onnx.data"
        assert tensor.numpy().tolist() == [1.5, -2.0]
        before = weight(model)
        assert isinstance(before, ir.ExternalTensor) and before.base_dir == external.parent

    def test_copy_everywhere_and_shared_data_once(self, tmp_path: Path) -> None:
        path = write_everywhere(tmp_path / "in")
        save(load(path), tmp_path / "out.onnx", external_data="copy")
        copy = load(tmp_path / "out.onnx")
        tensors = [place.tensor for place in places(copy)]
        assert all(isinstance(tensor, ir.ExternalTensor) for tensor in tensors)
        values = [tensor.numpy().tolist() for tensor in tensors]
        assert values == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [0, 1]]
        # Five pieces, each at a multiple of 64 bytes: the last tensor shares the first one's.
        assert (tmp_path / "out.onnx.data").stat().st_size == 4 * 64 + 8

    def test_copy_in_chunks_with_progress(
        self, external: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(data_layout, "_CHUNK", 3)
        seen: list[tuple[str, int, int]] = []
        save(
            load(external),
            tmp_path / "out.onnx",
            external_data="copy",
            progress=lambda *step: seen.append(step),
        )
        assert seen == [("out.onnx.data", n, 8) for n in (3, 6, 8)]

    def test_ctrl_c_leaves_nothing(self, external: Path, tmp_path: Path) -> None:
        def interrupt(name: str, done: int, total: int) -> None:
            assert len(names(tmp_path)) == 2
            raise KeyboardInterrupt

        model = load(external)
        with pytest.raises(KeyboardInterrupt):
            save(model, tmp_path / "out.onnx", external_data="copy", progress=interrupt)
        assert names(tmp_path) == ["in"]
        assert weight(model).numpy().tolist() == [1.5, -2.0]

    def test_data_that_shrinks_while_it_is_copied(
        self, external: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(data_layout, "_CHUNK", 4)
        data = external.parent / "w.bin"
        with pytest.raises(FormatError) as caught:
            save(
                load(external),
                tmp_path / "out.onnx",
                external_data="copy",
                progress=lambda *_: os.truncate(data, 0),
            )
        assert str(caught.value) == (
            f"'{tmp_path / 'out.onnx'}': '{data}' became shorter while it was copied; copy it again"
        )
        assert names(tmp_path) == ["in"]

    def test_an_existing_data_file(self, external: Path, tmp_path: Path) -> None:
        (tmp_path / "out.onnx.data").write_bytes(b"precious")
        with pytest.raises(FormatError) as caught:
            save(load(external), tmp_path / "out.onnx", external_data="copy")
        assert str(caught.value) == (
            f"'{tmp_path / 'out.onnx.data'}' exists; choose another name, or replace it with "
            "--force (in Python overwrite=True)"
        )
        save(load(external), tmp_path / "out.onnx", external_data="copy", overwrite=True)
        assert weight(load(tmp_path / "out.onnx")).numpy().tolist() == [1.5, -2.0]

    def test_the_models_own_data_is_never_overwritten(self, external: Path) -> None:
        with pytest.raises(FormatError) as caught:
            save(load(external), external.parent / "w.bin", overwrite=True)
        assert str(caught.value) == (
            f"'{external.parent / 'w.bin'}' holds data of the model itself; "
            "choose another output name"
        )

    def test_the_model_itself_can_be_replaced(self, external: Path) -> None:
        save(load(external), external, overwrite=True)
        assert weight(load(external)).numpy().tolist() == [1.5, -2.0]


EVERYWHERE = """<ir_version: 9, opset_import: ["" : 17, "l" : 1]>
g (float[2] x, bool c) => (float[2] y) <float[2] w = {0, 1}> {
   a = Constant <value = float[2] {1, 2}> ()
   b = If(c) <then_branch = t () => (float[2] p) <float[2] v = {2, 3}> {
      q = Constant <value = float[2] {3, 4}> ()
      p = Add(q, v)
   }, else_branch = e () => (float[2] r) { r = Identity(x) }>
   d = l.f(b)
   y = Sum(a, d, w)
}
<domain: "l", opset_import: ["" : 17]>
f (k) => (o) {
   m = Constant <value = float[2] {4, 5}> ()
   n = Constant <value = float[2] {0, 1}> ()
   o = Sum(k, m, n)
}"""


def write_everywhere(folder: Path) -> Path:
    """Write EVERYWHERE with all of its tensors in w.bin, [i, i+1] at the ith place."""
    folder.mkdir()
    (folder / "w.bin").write_bytes(np.arange(6, dtype=np.float32).tobytes())
    model = from_proto(onnx.parser.parse_model(EVERYWHERE), None)
    for place in list(places(model)):
        offset = 4 * int(place.tensor.numpy()[0])
        name = place.tensor.name or ""
        place.put(
            ir.ExternalTensor(
                "w.bin",
                offset,
                8,
                ir.DataType.FLOAT,
                shape=ir.Shape([2]),
                name=name,
                base_dir=folder,
            )
        )
    save(model, folder / "m.onnx")
    return folder / "m.onnx"


class TestLargeModels:
    def test_more_than_protobuf_holds(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(data_layout, "MAX_MODEL_BYTES", 10_000)
        model = from_proto(onnx.parser.parse_model(MODEL), None)
        large = np.random.default_rng(1).standard_normal((50, 51)).astype(np.float32)
        model.graph.register_initializer(ir.Value(name="l", const_value=ir.tensor(large, name="l")))
        save(model, tmp_path / "out.onnx")
        assert names(tmp_path) == ["out.onnx", "out.onnx.data"]
        assert (tmp_path / "out.onnx.data").read_bytes() == large.tobytes()
        assert (tmp_path / "out.onnx").stat().st_size < 1000
        back = load(tmp_path / "out.onnx")
        assert isinstance(back.graph.initializers["l"].const_value, ir.ExternalTensor)
        assert np.array_equal(back.graph.initializers["l"].const_value.numpy(), large)
        assert weight(back).numpy().tolist() == [1.5, -2.0]
        assert isinstance(model.graph.initializers["l"].const_value, ir.Tensor)

    def test_a_gigabyte_beside_the_output_costs_nothing(self, tmp_path: Path) -> None:
        text = EXTERNAL.replace("float[2] w", "float[1024,262144] w").replace("x, w", "x, x")
        text = text.replace('"offset": "4", "length": "8"', '"offset": "0"')
        path = write(tmp_path / "m.onnx", text)
        with (tmp_path / "w.bin").open("wb") as file:
            file.truncate(2**30)
        read_before = bytes_read()
        tracemalloc.start()
        save(load(path), tmp_path / "out.onnx")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert bytes_read() - read_before < 2**20
        assert peak < 2**20
        assert (tmp_path / "out.onnx").stat().st_size < 1000


def bytes_read() -> int:
    """Return how many bytes this process has read so far."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])
