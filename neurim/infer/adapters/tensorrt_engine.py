"""Builds a TensorRT engine of an ONNX file: tensorrt_engine.py ONNX ENGINE GPUS BATCHES

GPUS: compute capabilities with commas, such as 80,86 (TensorRT-RTX alone), or "" for the GPU that is here. BATCHES: the least, the
usual and the largest number of samples. The network is strongly typed: its types are those of the file.
"""
import json
import sys

try:
    import tensorrt_rtx as trt
except ImportError:
    try:
        import tensorrt as trt
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        sys.exit(0)

source, target, gpus, batches = sys.argv[1:]
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
flags = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
network = builder.create_network(1 << int(flags) if flags is not None else 0)
parser = trt.OnnxParser(network, logger)
if not parser.parse_from_file(source):
    print(json.dumps({"refused": "; ".join(str(parser.get_error(i)) for i in range(parser.num_errors))}))
    sys.exit(0)
config = builder.create_builder_config()
if gpus:
    if not hasattr(config, "set_compute_capability"):
        print(json.dumps({"refused": f"{trt.__name__} builds for the GPU that is here alone; leave gpus out, or install tensorrt-rtx"}))
        sys.exit(0)
    names = gpus.split(",")
    known = {name[2:]: value for name, value in trt.ComputeCapability.__members__.items() if name.startswith("SM")}
    if unknown := [name for name in names if name not in known]:
        print(json.dumps({"refused": f"{trt.__name__} knows no GPU of compute capability {', '.join(unknown)}; known are {', '.join(known)}"}))
        sys.exit(0)
    config.num_compute_capabilities = len(names)
    for place, name in enumerate(names):
        config.set_compute_capability(known[name], place)
least, usual, most = map(int, batches.split(","))
profile, dynamic = builder.create_optimization_profile(), False
for i in range(network.num_inputs):
    tensor = network.get_input(i)
    if -1 in tensor.shape:
        dynamic = True
        profile.set_shape(tensor.name, *[[n if axis == 0 else size for axis, size in enumerate(tensor.shape)] for n in (least, usual, most)])
if dynamic:
    config.add_optimization_profile(profile)
engine = builder.build_serialized_network(network, config)
if engine is None:
    print(json.dumps({"refused": "the builder gives no engine; see its messages"}))
    sys.exit(0)
with open(target, "wb") as file:
    file.write(engine)
print(json.dumps({"module": trt.__name__, "version": trt.__version__}))
