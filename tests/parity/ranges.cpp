// Neurim's side of ranges_test.py: ranges FILE.json reads drawn numbers and prints their ranges by each method.
#include <fstream>
#include <nlohmann/json.hpp>

#include "neurim/quantize/observer.h"
#include "tests/parity/answer.h"

namespace neurim {
namespace {

using Json = nlohmann::json;

/// All numbers at once, or in parts that are merged from the last on.
Observer observed(const Json& test) {
  const std::vector<float> values = test.at("values");
  std::vector<std::size_t> ends = test.value("parts", std::vector<std::size_t>{});
  ends.push_back(values.size());
  Observer all;
  for (std::size_t i = ends.size(); i-- > 0;) {
    const std::size_t first = i == 0 ? 0 : ends[i - 1];
    Observer part;
    part.add(std::span(values).subspan(first, ends[i] - first));
    all.merge(part);
  }
  return all;
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) {
  return neurim::print_answer("ranges", argc, argv, [](const std::vector<std::string>& words) {
    std::ifstream file(words.at(0));
    neurim::Json answers = neurim::Json::array();
    for (const neurim::Json& test : neurim::Json::parse(file)) {
      const neurim::Observer all = neurim::observed(test);
      neurim::Json ranges{{"count", all.count()}, {"least", all.least()}, {"most", all.most()}, {"state", all.state()}};
      for (const neurim::RangeMethod method : neurim::kRangeMethods)
        for (const bool symmetric : {false, true}) {
          const neurim::Range range = all.range(method, symmetric ? 254 : 255, symmetric);
          ranges[std::string(name(method)) + (symmetric ? "_symmetric" : "")] = {range.low, range.high};
        }
      answers.push_back(ranges);
    }
    return answers.dump();
  });
}
