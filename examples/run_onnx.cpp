// Runs an ONNX model on zeros: the first of its inputs' sizes that is open is 2, others are 1.
#include <iostream>

#include "neurim/neurim.h"
using namespace neurim;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: run_onnx MODEL.onnx\n";
    return 2;
  }
  try {
    initialize();
    const InferenceSession session = InferenceSession::open(argv[1]);
    for (const OnnxPort& port : session.inputs()) std::cout << port.name << "  " << text(port) << '\n';
    Tensors in;
    for (const OnnxPort& port : session.inputs()) {
      Shape shape;
      for (const Dim size : port.shape.value_or(Shape{1}))
        shape.push_back(!size.symbolic() ? size : shape.empty() ? Dim(2) : Dim(1));
      in.push_back(Tensor::full({dtype_of(port.element), shape}, 0));
    }
    const Tensors out = session.run(in);  // plans for these sizes; a second call runs the plan
    for (std::size_t i = 0; i < out.size(); ++i)
      std::cout << session.outputs()[i].name << "  " << text(out[i].type()) << '\n';
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.fault());
  }
  return 0;
}
