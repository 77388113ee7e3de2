"""OpenVINO on the CPU, inference in f32 of a model that Neurim exported, or with --half in the precision that it chooses: 16 bits
where the processor has instructions for them, be they faster or not."""
import argparse

import numpy as np
import openvino

from serve import serve


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="an .onnx file")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--half", action="store_true")
    a = parser.parse_args()
    core = openvino.Core()
    model = core.read_model(a.model)
    image = model.inputs[0].partial_shape
    shape = [a.batch, *(image[axis].get_length() for axis in range(1, len(image)))]
    model.reshape(shape)
    precision = {} if a.half else {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(model, "CPU", {**precision, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": a.threads})
    images = np.random.default_rng(0).standard_normal(shape, np.float32)  # outlives the tensor, which does not own it
    request = compiled.create_infer_request()
    request.set_input_tensor(openvino.Tensor(images, shared_memory=True))
    request.infer()
    request.infer()
    serve("openvino", openvino.__version__.split("-")[0], request.infer, a.batch)


if __name__ == "__main__":
    main()
