// Learns a text character by character and goes on with it: write_text FILE PROMPT. Without arguments the
// text is made here: sums written in words. Ends with 0 when the model knows the next character better than a
// bigram model of the same text does.
#include <iostream>
#include <random>

#include "neurim/neurim.h"

using namespace neurim;

/// Lines such as "two and three is five.".
std::string sums() {
  const char* words[] = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"};
  Random random(1);
  std::string lines;
  for (int i = 0; i < 2000; ++i) {
    const std::uint32_t a = random.below(6), b = random.below(6);
    lines += text(words[a], " and ", words[b], " is ", words[a + b], ".\n");
  }
  return lines;
}

int main(int argc, char** argv) try {
  initialize();
  const fs::path work = fs::temp_directory_path() / text("neurim-example-", std::random_device()());
  fs::create_directories(work);
  if (argc < 3) write_file(work / "sums.txt", sums());
  const TrainResult run = train({.data = argc < 3 ? (work / "sums.txt").string() : argv[1],
                                 .model = "gru",
                                 .epochs = 6,
                                 .batch = 16,
                                 .window = 48,
                                 .hidden_size = 64,
                                 .lr = 5e-3,
                                 .project = (work / "runs").string()});
  std::cout << "bits per character " << run.metrics["bits_per_character"] << ", of a bigram model "
            << run.metrics["bigram_bits_per_character"] << '\n';

  const std::string prompt = argc < 3 ? "two and two is" : argv[2];
  std::cout << prompt << generate(load_checkpoint(run.run), prompt, {.length = 100, .temperature = 0.5}) << '\n';
  return run.metrics["bits_per_character"] < run.metrics["bigram_bits_per_character"] ? 0 : 1;
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return static_cast<int>(error.fault());
}
