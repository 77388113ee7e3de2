"""safetensors files as NumPy arrays, both ways. https://github.com/huggingface/safetensors#format"""
import json

import numpy as np

DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
          "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
          "BF16": np.uint16}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


def read(path):
    """The arrays by name, mapped where they can be; bf16 comes as f32."""
    data = np.memmap(path, np.uint8, "c")
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8:start].tobytes())
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[start + begin:start + end], DTYPES[entry["dtype"]])
        if entry["dtype"] == "BF16":  # NumPy has no such type: the upper half of an f32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        arrays[name] = np.require(values.reshape(entry["shape"]), requirements=["ALIGNED", "WRITEABLE"])
    return arrays


def write(path, arrays, metadata=None):
    header, offset = {"__metadata__": metadata} if metadata else {}, 0
    for name, array in arrays.items():
        end = offset + array.nbytes
        header[name] = {"dtype": NAMES[array.dtype], "shape": array.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).data)
