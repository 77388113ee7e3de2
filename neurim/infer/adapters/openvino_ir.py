"""Writes OpenVINO's IR of an ONNX file, and runs it: openvino_ir.py ONNX XML HALF INPUT.npy OUTPUT.npy"""
import json
import sys

try:
    import numpy
    import openvino
except ImportError as error:
    print(json.dumps({"missing": str(error)}))
    sys.exit(0)

source, target, half, given, made = sys.argv[1:]
openvino.save_model(openvino.convert_model(source), target, compress_to_fp16=half == "true")
compiled = openvino.compile_model(target, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
numpy.save(made, compiled(numpy.load(given))[0])
print(json.dumps({"module": "openvino", "version": openvino.__version__}))
