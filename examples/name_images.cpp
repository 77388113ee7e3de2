// Names what images show, with a run, weights or an ONNX file.
#include <iostream>

#include "neurim/neurim.h"
using namespace neurim;

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: name_images MODEL IMAGE…\n";
    return 2;
  }
  try {
    initialize();
    const std::vector<fs::path> images(argv + 2, argv + argc);
    const ImageClassifier classifier = ImageClassifier::open(argv[1]);
    classifier.predict(images, [&](std::size_t i, const Classification& said) {
      std::cout << images[i].string() << "  ";
      if (!said.unreadable.empty())
        std::cout << said.unreadable << '\n';
      else if (!said.classes.empty())
        std::cout << classifier.class_names()[said.classes[0]] << ' ' << said.probabilities[said.classes[0]] << '\n';
    });
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.fault());
  }
  return 0;
}
