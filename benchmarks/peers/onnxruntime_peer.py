"""ONNX Runtime on the CPU, inference in f32 of a model that Neurim exported."""
import argparse

import numpy as np
import onnxruntime

from serve import serve


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="an .onnx file")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    a = parser.parse_args()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = a.threads, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    options.add_free_dimension_override_by_name("batch", a.batch)
    session = onnxruntime.InferenceSession(a.model, options, providers=["CPUExecutionProvider"])
    (image,) = session.get_inputs()
    images = np.random.default_rng(0).standard_normal((a.batch, *image.shape[1:]), np.float32)
    call = lambda: session.run(None, {image.name: images})
    call()
    call()
    serve("onnxruntime", onnxruntime.__version__, call, a.batch)


if __name__ == "__main__":
    main()
