"""Arrow data in and out: columns and tables of pyarrow, Polars, pandas and nanoarrow, and those of a producer written here."""
import ctypes
import gc
import importlib
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

import neurim as nm
from neurim.arrays import _array


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


pa, pl, pd, nanoarrow = (optional(name) for name in ("pyarrow", "polars", "pandas", "nanoarrow"))
DTYPES = {"b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32", "l": "int64", "L": "uint64",
          "e": "float16", "f": "float32", "g": "float64"}
COLUMNS = [name for name in DTYPES.values() if name not in ("bool", "float16")]


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    pass


Pointer = ctypes.POINTER
Schema._fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64), ("n_children", ctypes.c_int64),
                   ("children", Pointer(Pointer(Schema))), ("dictionary", Pointer(Schema)), ("release", ctypes.CFUNCTYPE(None, Pointer(Schema))), ("private_data", ctypes.c_void_p)]
Array._fields_ = [(name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")] + [
    ("buffers", Pointer(ctypes.c_void_p)), ("children", Pointer(Pointer(Array))), ("dictionary", Pointer(Array)), ("release", ctypes.CFUNCTYPE(None, Pointer(Array))),
    ("private_data", ctypes.c_void_p)]
Stream._fields_ = [("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, Pointer(Stream), Pointer(Schema))), ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, Pointer(Stream), Pointer(Array))),
                   ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_void_p, Pointer(Stream))), ("release", ctypes.CFUNCTYPE(None, Pointer(Stream))),
                   ("private_data", ctypes.c_void_p)]

capsule_of = ctypes.pythonapi.PyCapsule_New
capsule_of.restype, capsule_of.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
held_by = ctypes.pythonapi.PyCapsule_GetPointer
held_by.restype, held_by.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def array_in(capsule):
    return Array.from_address(held_by(capsule, b"arrow_array"))


def schema_in(capsule):
    return Schema.from_address(held_by(capsule, b"arrow_schema"))


made_here = []  # callbacks have to be there when tensors are let go, whatever the order


class Column:
    """A column in memory of its own: what its schema and array say, and how often they were released."""

    def __init__(self, values, form, name="a", bits=None, null_count=0, first=0, length=None, items=(), dictionary=False):
        self.name, self.form, self.items, self.values, self.bits = name.encode(), form.encode(), items, values, bits
        self.null_count, self.first, self.length, self.dictionary = null_count, first, length, dictionary
        self.released = {"schema": 0, "array": 0}
        self.kept = []
        made_here.append(self)

    def release(self, kind, struct):
        def called(one):
            self.released[kind] += 1
            for i in range(one.contents.n_children):
                child = one.contents.children[i]
                if child.contents.release:
                    child.contents.release(child)
            # A null pointer: ctypes sets no callback to None.
            ctypes.memset(one.contents.__class__.release.offset + ctypes.addressof(one.contents), 0, ctypes.sizeof(ctypes.c_void_p))

        self.kept.append(struct._fields_[-2][1](called))
        return self.kept[-1]

    def children(self, made):
        pointers = (Pointer(made[0].__class__) * len(made))(*(ctypes.pointer(one) for one in made)) if made else None
        self.kept += [made, pointers]
        return pointers

    def schema(self):
        made = Schema(format=self.form, name=self.name, n_children=len(self.items), flags=2)
        if self.items:
            made.children = ctypes.cast(self.children([one.schema() for one in self.items]), Pointer(Pointer(Schema)))
        if self.dictionary:
            self.kept.append(Schema(format=b"u", name=b""))
            made.dictionary = ctypes.pointer(self.kept[-1])
        made.release = self.release("schema", Schema)
        return made

    def array(self):
        nested = self.values is None
        length = self.length if self.length is not None else len(self.values) - self.first
        made = Array(length=length, null_count=self.null_count, offset=self.first, n_buffers=1 if nested else 2, n_children=len(self.items))
        validity = None if self.bits is None else self.bits.ctypes.data
        buffers = (ctypes.c_void_p * 2)(validity, None if nested else self.values.ctypes.data)
        self.kept.append(buffers)
        made.buffers = ctypes.cast(buffers, Pointer(ctypes.c_void_p))
        if self.items:
            made.children = ctypes.cast(self.children([one.array() for one in self.items]), Pointer(Pointer(Array)))
        made.release = self.release("array", Array)
        return made

    def __arrow_c_array__(self, requested_schema=None):
        schema, array = self.schema(), self.array()
        self.kept += [schema, array]
        return capsule_of(ctypes.addressof(schema), b"arrow_schema", None), capsule_of(ctypes.addressof(array), b"arrow_array", None)


def table(*columns, length=None, **options):
    if length is None:
        length = len(columns[0].values) if columns else 0
    return Column(None, "+s", "", items=columns, length=length, **options)


class Producer:
    """A stream whose chunks are the exports of objects, all of the first one's type."""

    def __init__(self, *exporters, error=0, schema=None):
        self.exports = [one.__arrow_c_array__() for one in exporters]
        self.type = schema.__arrow_c_array__()[0] if schema is not None else self.exports[0][0]
        self.error, self.at, self.released, self.kept = error, 0, 0, exporters
        made_here.append(self)

    def __arrow_c_stream__(self, requested_schema=None):
        def move(source, to, struct):
            ctypes.memmove(to, source, ctypes.sizeof(struct))
            ctypes.memset(source + struct.release.offset, 0, ctypes.sizeof(ctypes.c_void_p))
            return 0

        def get_schema(stream, out):
            return move(held_by(self.type, b"arrow_schema"), out, Schema)

        def get_next(stream, out):
            if self.at == len(self.exports):
                ctypes.memset(out, 0, ctypes.sizeof(Array))
                return self.error
            self.at += 1
            return move(held_by(self.exports[self.at - 1][1], b"arrow_array"), out, Array)

        def release(stream):
            self.released += 1
            ctypes.memset(ctypes.addressof(stream.contents) + Stream.release.offset, 0, ctypes.sizeof(ctypes.c_void_p))

        kinds, reason = dict(Stream._fields_), ctypes.create_string_buffer(b"the disk is gone")
        self.stream = Stream(get_schema=kinds["get_schema"](get_schema), get_next=kinds["get_next"](get_next),
                             get_last_error=kinds["get_last_error"](lambda stream: ctypes.addressof(reason)), release=kinds["release"](release))
        return capsule_of(ctypes.addressof(self.stream), b"arrow_array_stream", None)


def aligned(count, dtype, shift=0):
    """Numbers from 0 on in memory that is aligned to 64 bytes, or beside that by `shift` bytes."""
    dtype = np.dtype(dtype)
    room = np.empty(count * dtype.itemsize + 128, np.uint8)
    at = -room.ctypes.data % 64 + shift
    values = room[at : at + count * dtype.itemsize].view(dtype)
    values[...] = np.arange(count) % 2 if dtype == bool else np.arange(count)
    return values


class Case(unittest.TestCase):
    def refused(self, message, function, *arguments, kind=nm.UsageError):
        with self.assertRaisesRegex(kind, message) as caught:
            function(*arguments)
        self.assertNotIn("\n", str(caught.exception))

    def equal(self, own, wanted):
        np.testing.assert_array_equal(own.numpy(), wanted)
        self.assertEqual(own.numpy().dtype, np.asarray(wanted).dtype)
        self.assertEqual(own.shape, np.shape(wanted))


class InTest(Case):
    def test_every_dtype_shares_memory(self):
        for form, name in DTYPES.items():
            with self.subTest(name):
                values = aligned(20, name)
                bits = np.packbits(values, bitorder="little") if form == "b" else values
                column = Column(bits, form, length=20)
                for made in (nm.tensor(column), nm.Tensor(column), nm.from_dlpack(column)):
                    self.equal(made, values)
                    self.assertEqual(made.data_ptr() == values.ctypes.data, form != "b")
                self.assertEqual(nm.tensor(column, "f64").dtype, "f64")

    def test_each_is_released_once(self):
        column = Column(aligned(8, "f4"), "f")
        made = nm.tensor(column)
        self.assertEqual(column.released, {"schema": 1, "array": 0})
        other = made.numpy()
        del made
        gc.collect()
        self.assertEqual(column.released["array"], 0)
        np.testing.assert_array_equal(other, np.arange(8))
        del other
        gc.collect()
        self.assertEqual(column.released, {"schema": 1, "array": 1})
        one, two = Column(aligned(8, "f4"), "f", "one"), Column(aligned(8, "i4"), "i", "two")
        both = table(one, two)
        columns = nm.data.table(both)
        self.assertEqual((both.released, one.released["array"]), ({"schema": 1, "array": 1}, 0))
        del columns["one"]
        gc.collect()
        self.assertEqual((one.released, two.released), ({"schema": 1, "array": 1}, {"schema": 1, "array": 0}))
        self.equal(columns["two"], np.arange(8, dtype="i4"))
        del columns
        gc.collect()
        self.assertEqual((both.released, two.released), ({"schema": 1, "array": 1}, {"schema": 1, "array": 1}))
        for refused in (Column(aligned(8, "f4"), "u"), Column(aligned(8, "f4"), "f", bits=np.zeros(1, np.uint8), null_count=8)):
            with self.assertRaises(nm.UsageError):
                nm.tensor(refused)
            gc.collect()
            self.assertEqual(refused.released, {"schema": 1, "array": 1})
        capsules = nm.ones(3).__arrow_c_array__()

        class Again:
            def __arrow_c_array__(self, schema=None):
                return capsules

        self.equal(nm.tensor(Again()), np.ones(3, "f4"))
        self.refused("read already", nm.tensor, Again())

    def test_memory_is_never_written(self):
        values = aligned(8, "f4")
        made = nm.tensor(Column(values, "f"))
        self.assertFalse(made.numpy().flags.writeable)
        with self.assertRaises(ValueError):
            made.numpy()[0] = 7
        step = nm.compile(lambda: made.assign(made + 1))
        step(), step()
        self.equal(made, np.arange(2, 10, dtype="f4"))
        made.assign(nm.zeros(8))
        self.equal(made, np.zeros(8, "f4"))
        np.testing.assert_array_equal(values, np.arange(8))
        self.assertTrue(made.numpy().flags.writeable)

    def test_memory_that_is_not_aligned_is_copied(self):
        for shift, shared in ((0, True), (16, True), (8, False)):
            values = aligned(6, "f8", shift)
            column = Column(values, "g")
            made = nm.tensor(column)
            self.equal(made, values)
            self.assertEqual(made.data_ptr() == values.ctypes.data, shared)
            self.assertEqual(column.released["array"], 0 if shared else 1)

    def test_offsets(self):
        values = aligned(40, "f4")
        for first in (1, 4):
            made = nm.tensor(Column(values, "f", first=first, length=9))
            self.equal(made, values[first : first + 9])
            self.assertEqual(made.data_ptr() == values.ctypes.data + 4 * first, first == 4)
        bits = np.packbits(aligned(40, "?"), bitorder="little")
        self.equal(nm.tensor(Column(bits, "b", first=3, length=9)), (np.arange(3, 12) % 2).astype(bool))
        # The offset of a table counts beside those of its columns.
        self.equal(nm.data.table(table(Column(values, "f", first=2, length=30), first=2, length=9))["a"], values[4:13])
        lists = Column(None, "+w:3", items=[Column(values, "f", "item", first=1)], first=2, length=4)
        self.equal(nm.tensor(lists), values[7:19].reshape(4, 3))

    def test_nulls(self):
        values = aligned(16, "f4")
        bits = np.packbits(np.arange(16) != 9, bitorder="little")
        for null_count in (1, -1):
            self.refused("column 'a' holds nulls; fill or drop", nm.tensor, Column(values, "f", bits=bits, null_count=null_count))
            self.equal(nm.tensor(Column(values, "f", bits=bits, null_count=null_count, length=9)), values[:9])
            self.equal(nm.tensor(Column(values, "f", bits=bits, null_count=null_count, first=10)), values[10:])
        self.refused("column 'a' holds nulls", nm.data.table, table(Column(values, "f"), bits=bits, null_count=1))
        self.refused("column 'a' holds nulls", nm.data.table, table(Column(values, "f"), Column(values, "f", "b"), bits=bits, null_count=1))
        self.refused("column 'e' holds nulls", nm.tensor, Column(None, "+w:4", "e", items=[Column(values, "f", bits=bits, null_count=1)], length=4))
        self.refused("the column holds nulls", nm.tensor, Column(values, "f", "", bits=bits, null_count=1))
        self.equal(nm.tensor(Column(values, "f", bits=np.full(2, 255, np.uint8), null_count=-1)), values)
        self.refused("column 'n' holds nulls", nm.tensor, Column(values, "n", "n"))

    def test_what_is_no_number(self):
        values = aligned(16, "i4")
        for form, word in (("u", "texts"), ("U", "texts"), ("vu", "texts"), ("tdD", "times"), ("tsu:UTC", "times"), ("d:10,2", "decimals"), ("z", "bytes"), ("+l", "lists"),
                           ("w:16", "bytes"), ("+r", "nested values")):
            with self.subTest(form):
                self.refused(f"^tensor: column 't' holds {word}; ", nm.tensor, Column(values, form, "t"))
                self.refused(f"^table: column 't' holds {word}; ", nm.data.table, table(Column(values, "i"), Column(values, form, "t")))
                self.refused(f"^column 't' of X holds {word}; ", _array, table(Column(values, "i"), Column(values, form, "t")), kind=TypeError)
        self.refused("holds categories; give numbers, such as their codes", nm.tensor, Column(values, "i", dictionary=True))
        for values in (nm.zeros(3, dtype="bf16"), nm.tensor(1.0)):
            self.refused("arrow: .*export x", values.__arrow_c_array__)

    def test_lists_of_fixed_size(self):
        values = aligned(24, "f4")
        made = nm.tensor(Column(None, "+w:4", items=[Column(values, "f")], length=6))
        self.equal(made, values.reshape(6, 4))
        self.assertEqual(made.data_ptr(), values.ctypes.data)
        nested = Column(None, "+w:3", items=[Column(None, "+w:2", items=[Column(values, "f")], length=12)], length=4)
        self.equal(nm.tensor(nested), values.reshape(4, 3, 2))
        embedded = nm.data.table(table(Column(None, "+w:4", "e", items=[Column(values, "f")], length=6), Column(aligned(6, "i8"), "l", "y"), length=6))
        self.equal(embedded["e"], values.reshape(6, 4))
        self.assertEqual(embedded["e"].data_ptr(), values.ctypes.data)
        wide = nm.tensor(table(Column(None, "+w:4", "e", items=[Column(values, "f")], length=6), Column(aligned(6, "i4"), "i", "y"), length=6))
        self.equal(wide, np.concatenate([values.reshape(6, 4), np.arange(6.0)[:, None]], 1))

    def test_tables(self):
        one, two = aligned(8, "f4"), aligned(8, "i2")
        self.equal(nm.tensor(table(Column(one, "f", "a"), Column(two, "s", "b"))), np.stack([one, two], 1))
        single = nm.tensor(table(Column(one, "f", "a")))
        self.equal(single, one[:, None])
        self.assertEqual(single.data_ptr(), one.ctypes.data)
        columns = nm.data.table(table(Column(one, "f", "a"), Column(two, "s", "b")))
        self.assertEqual([(name, column.data_ptr()) for name, column in columns.items()], [("a", one.ctypes.data), ("b", two.ctypes.data)])
        mixed = table(Column(one, "f", "a"), Column(two, "u", "text"), Column(two, "s", "b"))
        self.assertEqual(list(nm.data.table(mixed, columns=["b", "a"])), ["b", "a"])
        self.refused("no column 'texts'; did you mean 'text'", nm.data.table, mixed, ["texts"])
        self.refused("several columns 'a'", nm.data.table, table(Column(one, "f", "a"), Column(one, "f", "a")))
        self.refused("single column", nm.data.table, Column(one, "f", "a"))
        self.refused("not a list", nm.data.table, [1])
        for values in ({"a": one, "b": [1, 2]}, {"a": nm.tensor(one), "b": nm.tensor([1, 2])}):
            made = nm.data.table(values)
            self.equal(made["a"], one)
            self.equal(made["b"], np.array([1, 2]))
        self.refused("column 't' holds texts", nm.data.table, {"t": np.array(["a"])})

    def test_nothing(self):
        for form, name in DTYPES.items():
            self.equal(nm.tensor(Column(np.zeros(0, name), form)), np.zeros(0, name))
        self.equal(nm.tensor(Producer(schema=Column(np.zeros(0, "f4"), "f"))), np.zeros(0, "f4"))
        self.equal(nm.tensor(Column(None, "+w:0", items=[Column(aligned(0, "f4"), "f")], length=3)), np.zeros((3, 0), "f4"))
        self.equal(nm.tensor(table(Column(np.zeros(0, "f4"), "f"), Column(np.zeros(0, "f4"), "f", "b"))), np.zeros((0, 2), "f4"))
        self.equal(nm.data.table(Producer(schema=table(Column(np.zeros(0, "f4"), "f"))))["a"], np.zeros(0, "f4"))
        self.assertEqual(nm.data.table(table(length=3)), {})
        self.refused("no columns", nm.tensor, table(length=3))
        self.refused("X has no columns", _array, table(length=3), kind=ValueError)

    def test_streams(self):
        chunks = [Column(aligned(count, "f4"), "f") for count in (5, 0, 3)]
        stream = Producer(*chunks)
        self.equal(nm.tensor(stream), np.float32([0, 1, 2, 3, 4, 0, 1, 2]))
        gc.collect()
        self.assertEqual((stream.released, [one.released["array"] for one in chunks]), (1, [1, 1, 1]))
        values = aligned(8, "f4")
        self.assertEqual(nm.tensor(Producer(Column(values, "f"))).data_ptr(), values.ctypes.data)
        columns = nm.data.table(Producer(*(table(Column(aligned(4, "f4"), "f"), Column(np.array([5], "u1"), "b", "mask", length=4)) for _ in range(2))))
        self.equal(columns["a"], np.float32([0, 1, 2, 3] * 2))
        self.equal(columns["mask"], np.array([True, False, True, False] * 2))
        broken = Producer(Column(values, "f"), error=5)
        self.refused("ended with error 5: the disk is gone", nm.tensor, broken, kind=nm.DataError)
        self.assertEqual(broken.released, 1)
        # Both directions: a stream of what tensors export.
        sources = [nm.arange(6).reshape(3, 2), nm.arange(6, 10).reshape(2, 2)]
        self.equal(nm.tensor(Producer(*sources)), np.arange(10).reshape(5, 2))
        one = nm.rand(64)
        self.assertEqual(nm.tensor(Producer(one)).data_ptr(), one.data_ptr())

    def test_wherever_arrays_are_taken(self):
        values = aligned(8, "f4")
        column = Column(values, "f")
        self.equal(nm.ones(8) + column, values + 1)
        self.equal(nm.tensor([column, column]), np.stack([values, values]))
        self.equal(nm.compile(lambda x: x * 2)(column), values * 2)
        self.equal(nm.where(nm.tensor([True] * 8), column, 0.0), values)
        images = Column(None, "+w:4", items=[Column(None, "+w:4", items=[Column(aligned(160, "u1"), "C")], length=40)], length=10)
        data = nm.data.arrays(images, Column(np.array([0, 1] * 5, "i8"), "l"), val_split=0.2)
        self.assertEqual((data.classes, len(data)), (2, 8))

    def test_nothing_is_imported(self):
        program = ("import sys; sys.modules.update(pyarrow=None, polars=None, pandas=None, nanoarrow=None); import arrow_test as a; import neurim as nm; "
                   "print(nm.tensor(a.Producer(nm.ones(3))).tolist(), nm.data.table(a.table(a.Column(a.aligned(2, 'f4'), 'f'))))")
        run = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).resolve().parent, capture_output=True, text=True, check=False)
        self.assertEqual(run.stdout.strip(), "[1.0, 1.0, 1.0] {'a': Tensor([0., 1.], dtype=f32)}", run.stderr)


class OutTest(Case):
    def test_every_dtype(self):
        for form, name in DTYPES.items():
            with self.subTest(name):
                made = nm.tensor(aligned(20, name))
                schema, array = made.__arrow_c_array__()
                held = array_in(array)
                self.assertEqual((schema_in(schema).format, held.length, held.null_count, held.n_buffers, held.buffers[0]), (form.encode(), 20, 0, 2, None))
                self.assertEqual(held.buffers[1] == made.data_ptr(), form != "b")

                class Export:
                    def __arrow_c_array__(self, requested=None, pair=(schema, array)):
                        return pair

                again = nm.tensor(Export())
                self.equal(again, aligned(20, name))
                self.assertEqual(again.data_ptr() == made.data_ptr(), form != "b")
        for shape in ((5, 3), (4, 3, 2), (0, 3), (3, 0), (2, 1, 3, 2)):
            self.equal(nm.tensor(Producer(nm.ones(shape))), np.ones(shape, "f4"))
        self.equal(nm.tensor(Producer(nm.tensor(np.eye(5, dtype=bool)))), np.eye(5, dtype=bool))

    def test_lives_as_long_as_it_is_shown(self):
        made = nm.arange(100)
        stream = Producer(made)
        del made
        gc.collect()
        filler = [nm.rand(200) for _ in range(50)]
        self.equal(nm.tensor(stream), np.arange(100))
        del filler
        made = nm.zeros(16)
        before = made.data_ptr()
        made.assign(nm.ones(16))
        self.assertEqual(made.data_ptr(), before)
        shown = nm.tensor(Producer(made))
        made.assign(nm.full((16,), 2.0))
        self.equal(shown, np.ones(16, "f4"))
        self.equal(made, np.full(16, 2, "f4"))
        del shown
        capsules = nm.rand(10).__arrow_c_array__()
        del capsules  # nobody has read them

    def test_a_child_may_be_taken(self):
        made = nm.arange(12).reshape(4, 3)
        schema, array = made.__arrow_c_array__()
        child = Array()
        source = array_in(array).children[0]
        ctypes.memmove(ctypes.addressof(child), source, ctypes.sizeof(Array))
        ctypes.memset(ctypes.addressof(source.contents) + Array.release.offset, 0, ctypes.sizeof(ctypes.c_void_p))
        del schema, array, made
        gc.collect()
        self.assertEqual(np.ctypeslib.as_array(ctypes.cast(child.buffers[1], Pointer(ctypes.c_int64)), (12,)).tolist(), list(range(12)))
        child.release(ctypes.byref(child))
        self.assertFalse(child.release)

    def test_another_dtype_is_asked_for(self):
        made = nm.tensor([1, 2])
        for form, wanted in ((b"f", b"f"), (b"l", b"l"), (b"u", b"l")):
            asked = Schema(format=form, name=b"")
            schema, array = made.__arrow_c_array__(capsule_of(ctypes.addressof(asked), b"arrow_schema", None))
            self.assertEqual(schema_in(schema).format, wanted)
            self.assertEqual(array_in(array).buffers[1] == made.data_ptr(), wanted == b"l")

    def test_a_trace_has_no_memory(self):
        self.refused("no data", nm.compile(lambda x: x.__arrow_c_array__()), nm.ones(2))


@unittest.skipIf(pa is None, "pyarrow is not installed")
class PyarrowTest(Case):
    def test_round_trips(self):
        for name in DTYPES.values():
            with self.subTest(name):
                values = np.arange(40).astype(name)
                source = pa.array(values)
                for column in (source, pa.chunked_array([source]), pa.table({"a": source})["a"]):
                    made = nm.tensor(column)
                    self.equal(made, values)
                    self.assertEqual(made.data_ptr() == source.buffers()[1].address, name != "bool")
                self.equal(nm.tensor(source[3:]), values[3:])
                self.equal(nm.tensor(pa.chunked_array([source[:7], source[7:]])), values)
                out = pa.array(nm.tensor(values))
                self.assertTrue(out.equals(source))
                self.assertEqual(out.type, source.type)
                out.validate(full=True)
                self.assertEqual(out.buffers()[1].address == nm.tensor(out).data_ptr(), name != "bool")

    def test_pointers_and_other_types(self):
        made = nm.rand(5, 4)
        out = pa.array(made)
        out.validate(full=True)
        self.assertEqual((out.type, out.values.buffers()[1].address), (pa.list_(pa.float32(), 4), made.data_ptr()))
        self.assertEqual(out.to_pylist(), made.tolist())
        back = nm.tensor(out)
        self.equal(back, made.numpy())
        self.assertEqual(back.data_ptr(), made.data_ptr())
        self.assertEqual(pa.array(nm.ones(2, 3, 4)).to_pylist(), nm.ones(2, 3, 4).tolist())
        self.assertEqual(pa.array(nm.ones(3), type=pa.float64()), pa.array([1.0, 1.0, 1.0]))
        self.assertEqual(pa.array(nm.ones(3, 2), type=pa.list_(pa.float64(), 2)).type, pa.list_(pa.float64(), 2))

    def test_memory_is_let_go(self):
        gc.collect()
        before = pa.total_allocated_bytes()
        source = pa.table({"a": pa.array(range(1000)), "b": pa.array([0.5] * 1000), "c": pa.array([True] * 1000)})
        made = nm.data.table(source)
        del source
        gc.collect()
        self.assertGreaterEqual(pa.total_allocated_bytes(), before + 16000)
        self.assertEqual((made["a"].sum().item(), made["b"].sum().item(), made["c"].sum().item()), (499500, 500, 1000))
        del made["a"]
        gc.collect()
        self.assertLess(pa.total_allocated_bytes(), before + 16000)
        del made
        gc.collect()
        self.assertEqual(pa.total_allocated_bytes(), before)
        shown = pa.array(nm.arange(1000))
        gc.collect()
        filler = [nm.rand(2000) for _ in range(20)]
        self.assertEqual(pa.compute.sum(shown).as_py() if hasattr(pa, "compute") else sum(shown.to_pylist()), 499500)
        del filler

    def test_tables(self):
        source = pa.table({"a": [1, 2], "b": [0.5, 2], "t": ["x", "y"]})
        self.equal(nm.tensor(source.select(["a", "b"])), np.array([[1, 0.5], [2, 2]]))
        self.refused("column 't' holds texts", nm.tensor, source)
        self.refused("column 't' holds texts", nm.data.table, source)
        self.assertEqual({name: column.tolist() for name, column in nm.data.table(source, columns=["b", "a"]).items()}, {"b": [0.5, 2], "a": [1, 2]})
        reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), (pa.record_batch({"a": [i]}) for i in range(3)))
        self.equal(nm.data.table(reader)["a"], np.arange(3))
        for values, word in (([1, None], "nulls"), (["x"], "texts"), ([[1], [2, 3]], "lists"), ([{"a": 1}], None), (pa.array(["x"]).dictionary_encode(), "categories")):
            if word is not None:
                self.refused(f"the column holds {word}", nm.tensor, values if isinstance(values, pa.Array) else pa.array(values))
                self.refused(f"column 'v' holds {word}", nm.tensor, pa.table({"v": values}))
        self.refused("column 's' holds structs", nm.data.table, pa.table({"s": [{"a": 1}]}))
        lists = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2))
        for one in (lists, pa.chunked_array([lists])):
            self.assertEqual(nm.tensor(one).data_ptr(), lists.values.buffers()[1].address)
        self.equal(nm.tensor(lists[1:]), np.float32([[3, 4], [5, 6]]))
        self.equal(nm.tensor(pa.chunked_array([lists[1:], lists[:1]])), np.float32([[3, 4], [5, 6], [1, 2]]))
        self.refused("holds nulls", nm.tensor, pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)))

    def test_files(self):
        from pyarrow import csv, parquet

        source = pa.table({"a": pa.array(np.arange(50)), "b": pa.array(np.linspace(0, 1, 50)), "t": ["x"] * 50})
        with tempfile.TemporaryDirectory() as folder:
            parquet.write_table(source, f"{folder}/x.parquet", row_group_size=20)
            csv.write_csv(source, f"{folder}/x.csv")
            for path in (f"{folder}/x.parquet", Path(folder, "x.csv")):
                made = nm.data.table(path, columns=["b", "a"])
                self.assertEqual(list(made), ["b", "a"])
                self.equal(made["a"], np.arange(50))
                self.equal(made["b"], np.linspace(0, 1, 50))
                self.refused("column 't' holds texts", nm.data.table, path)
                self.refused("no column 'c'", nm.data.table, path, ["c"])
            self.refused("nothing.parquet cannot be read", nm.data.table, f"{folder}/nothing.parquet", kind=nm.DataError)
            Path(folder, "bad.parquet").write_bytes(b"PAR1")
            self.refused("bad.parquet cannot be read", nm.data.table, f"{folder}/bad.parquet", kind=nm.DataError)


class FilesTest(Case):
    def test_without_pyarrow(self):
        with mock.patch.dict(sys.modules, {"pyarrow": None}):
            self.refused("needs pyarrow, .*pip install pyarrow", nm.data.table, "x.parquet")
        self.refused("no .parquet or .csv file", nm.data.table, "x.xls")


@unittest.skipIf(pl is None, "polars is not installed")
class PolarsTest(Case):
    def test_round_trips(self):
        for name in DTYPES.values():
            with self.subTest(name):
                values = np.arange(40).astype(name)
                if name == "float16" and not hasattr(pl, "Float16"):
                    continue
                source = pl.Series("a", values, dtype=pl.Float16 if name == "float16" else None)
                made = nm.tensor(source)
                self.equal(made, values)
                if name not in ("bool", "float16"):
                    self.assertEqual(made.data_ptr(), source.to_numpy(allow_copy=False).ctypes.data)
                    back = pl.Series("a", nm.tensor(values))
                    self.assertEqual((back.dtype, back.to_list()), (source.dtype, source.to_list()))
        self.equal(nm.tensor(pl.concat([pl.Series([1, 2]), pl.Series([3])], rechunk=False)), np.array([1, 2, 3]))
        made = nm.rand(64)
        self.assertEqual(pl.Series(made).to_numpy(allow_copy=False).ctypes.data, made.data_ptr())
        wide = pl.Series(nm.arange(6).reshape(3, 2))
        self.assertEqual((wide.dtype, wide.to_list()), (pl.Array(pl.Int64, 2), [[0, 1], [2, 3], [4, 5]]))

    def test_lifetimes(self):
        made = nm.tensor(pl.Series(np.arange(1000.0)))
        shown = pl.Series(nm.arange(1000))
        gc.collect()
        filler = [nm.rand(2000) for _ in range(20)]
        self.assertEqual((made.sum().item(), shown.sum()), (499500, 499500))
        del filler

    def test_tables(self):
        source = pl.DataFrame({"a": [1, 2], "b": [0.5, 2.0], "t": ["x", "y"], "n": [1, None]})
        self.equal(nm.tensor(source[["a", "b"]]), np.array([[1, 0.5], [2, 2]]))
        made = nm.data.table(source, columns=["a"])["a"]
        self.assertEqual(made.data_ptr(), source["a"].to_numpy(allow_copy=False).ctypes.data)
        self.refused("column 't' holds texts", nm.data.table, source)
        self.refused("column 'n' holds nulls", nm.data.table, source, ["n"])
        self.refused("holds categories", nm.tensor, pl.Series(["x"], dtype=pl.Categorical))
        self.refused("holds times", nm.tensor, pl.Series([0]).cast(pl.Date))
        self.equal(nm.tensor(pl.Series([[1.0, 2.0]], dtype=pl.Array(pl.Float32, 2))), np.float32([[1, 2]]))


@unittest.skipIf(pd is None, "pandas is not installed")
class PandasTest(Case):
    def test_series(self):
        for name in DTYPES.values():
            values = np.arange(40).astype(name)
            source = pd.Series(values.copy(), name="a")
            made = nm.tensor(source)
            self.equal(made, values)
            source.iloc[0] = values[1]
            self.equal(made, values)  # a copy, as of every array that may change
        self.equal(nm.tensor(pd.Series([1.0, np.nan])), np.array([1.0, np.nan]))

    @unittest.skipIf(pa is None, "pyarrow is not installed")
    def test_arrows_dtypes(self):
        source = pa.array(np.arange(40))
        series = pd.Series(source, dtype=pd.ArrowDtype(pa.int64()), name="a")
        for made in (nm.tensor(series), nm.data.table(series.to_frame())["a"]):
            self.equal(made, np.arange(40))
            self.assertEqual(made.data_ptr(), source.buffers()[1].address)
        self.refused("column 'a' holds nulls", nm.tensor, pd.Series([1, None], dtype=pd.ArrowDtype(pa.int64()), name="a"))
        shown = pd.Series(pa.array(nm.arange(3)), dtype=pd.ArrowDtype(pa.int64()))
        self.assertEqual(shown.tolist(), [0, 1, 2])

    def test_frames(self):
        frame = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40), "t": ["x"] * 40, "n": pd.array([1, None] * 20, dtype="Int64")})
        made = nm.data.table(frame, columns=["a", "b"])
        for name in "ab":
            self.assertEqual(made[name].data_ptr(), frame[name].to_numpy().ctypes.data)
            self.assertFalse(made[name].numpy().flags.writeable)
        self.equal(nm.tensor(frame[["a", "b"]]), np.stack([np.arange(40.0)] * 2, 1))
        self.equal(nm.tensor(frame[["a"]]), np.arange(40.0)[:, None])
        self.refused("column 't' holds texts", nm.tensor, frame)
        self.refused("column 't' holds texts", nm.data.table, frame)
        self.refused("column 'n' holds nulls", nm.data.table, frame, ["n"])
        self.equal(nm.data.table(pd.DataFrame({"c": pd.array([1, 2], dtype="Int64")}))["c"], np.array([1, 2]))


@unittest.skipIf(nanoarrow is None, "nanoarrow is not installed")
class NanoarrowTest(Case):
    def test_both_ways(self):
        for name in COLUMNS:
            source = nanoarrow.Array(range(20), getattr(nanoarrow, {"float32": "float32", "float64": "float64"}.get(name, name))())
            self.equal(nm.tensor(source), np.arange(20).astype(name))
            self.assertEqual(nanoarrow.Array(nm.tensor(np.arange(20).astype(name))).to_pylist(), list(range(20)))
        self.assertEqual(nanoarrow.Array(nm.arange(6).reshape(3, 2)).to_pylist(), [[0, 1], [2, 3], [4, 5]])
        self.refused("nulls", nm.tensor, nanoarrow.Array([1, None], nanoarrow.int32()))
        from neurim.ml import LogisticRegression

        y = nanoarrow.Array([0, 1] * 10, nanoarrow.int64())
        x = np.arange(20.0)[:, None] % 2
        self.assertEqual(LogisticRegression().fit(x, y).score(x, y), 1)


class EstimatorsTest(Case):
    def setUp(self):
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(80, 3))
        self.y = (self.x[:, 0] > 0).astype(np.int64)

    def tables(self):
        columns = {name: np.ascontiguousarray(self.x[:, i]) for i, name in enumerate("abc")}
        yield "dictionary", nm.data.table(columns), nm.tensor(self.y)
        yield "producer", table(*(Column(values, "g", name) for name, values in columns.items())), Column(self.y, "l", "y")
        if pa is not None:
            yield "pyarrow", pa.table(columns), pa.array(self.y)
            yield "chunks", pa.table({name: pa.chunked_array([one[:30], one[30:]]) for name, one in columns.items()}), pa.chunked_array([self.y[:9], self.y[9:]])
        if pl is not None:
            yield "polars", pl.DataFrame(columns), pl.Series(self.y)
        if pd is not None:
            yield "pandas", pd.DataFrame(columns), pd.Series(self.y)

    def test_of_neurim_ml(self):
        from neurim.ml import PCA, KNeighborsClassifier, KNeighborsRegressor, LogisticRegression

        for name, x, y in self.tables():
            with self.subTest(name):
                self.equal(nm.tensor(_array(x)), self.x)
                for model in (KNeighborsClassifier(3), KNeighborsRegressor(3), LogisticRegression()):
                    wanted = model.fit(self.x, self.y).predict(self.x)
                    score = model.score(self.x, self.y)
                    np.testing.assert_array_equal(model.fit(x, y).predict(x), wanted)
                    self.assertEqual(model.score(x, y), score)
                np.testing.assert_array_equal(PCA(2).fit_transform(x), PCA(2).fit_transform(self.x))
        self.refused("X has columns of 2 to 80 rows", _array, {"a": self.x[:, 0], "b": [1, 2]}, kind=ValueError)
        self.refused("column 't' of X holds texts", _array, {"a": [1], "t": ["x"]}, kind=TypeError)

    @unittest.skipIf(optional("sklearn") is None, "scikit-learn is not installed")
    def test_of_neurim_sklearn(self):
        from neurim.sklearn import NeurimClassifier, NeurimRegressor

        for kind in (NeurimClassifier, NeurimRegressor):
            wanted = kind(epochs=2, random_state=0).fit(self.x, self.y).predict(self.x)
            for name, x, y in self.tables():
                with self.subTest(name, kind=kind.__name__):
                    model = kind(epochs=2, random_state=0).fit(x, y)
                    np.testing.assert_array_equal(model.predict(x), wanted)
                    self.assertTrue(np.isfinite(model.score(x, nm.tensor(self.y) if name == "producer" else y)))


if __name__ == "__main__":
    unittest.main()
