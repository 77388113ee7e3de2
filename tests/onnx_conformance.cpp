// Runs ONNX's backend tests: folders with model.onnx and test_data_set_*/input_N.pb, output_N.pb.
//
//   onnx_conformance FOLDER [--eager] [REGEX]
//
// MANIFEST.tsv in the folder names them: path, tier, group, operator, opset, rtol, atol. A line for each failure and
// for each tier; the regular expression chooses by operator or path.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <regex>
#include <sstream>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/compile/plan.h"
#include "neurim/model/onnx/model.h"
#include "neurim/neurim.h"

namespace {

using namespace neurim;

struct Tolerance {
  double relative, absolute;
};

Tolerance tolerance_of(OnnxElement element, Tolerance wanted) {
  if (element == OnnxElement::f16) return {std::max(wanted.relative, 5e-3), std::max(wanted.absolute, 1e-3)};
  if (element == OnnxElement::bf16) return {std::max(wanted.relative, 2e-2), std::max(wanted.absolute, 1e-2)};
  return wanted;
}

/// What differs; "" where nothing does.
std::string difference(const OnnxValue& wanted, const OnnxValue& got, Tolerance tolerance) {
  if (!wanted || !got) return wanted || got ? text("is ", got, ", not ", wanted) : "";
  if (wanted.is_sequence() != got.is_sequence()) return text("is ", got, ", not ", wanted);
  if (wanted.is_sequence()) {
    if (wanted.sequence().size() != got.sequence().size()) return text("is ", got, ", not ", wanted);
    for (std::size_t i = 0; i < wanted.sequence().size(); ++i)
      if (std::string part = difference(wanted.sequence()[i], got.sequence()[i], tolerance); !part.empty())
        return text("element ", i, " ", part);
    return "";
  }
  if (wanted.element() != got.element() || wanted.shape() != got.shape()) return text("is ", got, ", not ", wanted);
  if (wanted.is_strings()) return wanted.strings().values == got.strings().values ? "" : "has other texts";
  const DType dtype = wanted.tensor().dtype();
  if (!is_floating(dtype)) {
    const auto a = wanted.tensor().values<std::int64_t>(), b = got.tensor().values<std::int64_t>();
    const std::int64_t slack = bits(dtype) == 8 && dtype != DType::boolean ? 1 : 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (std::abs(a[i] - b[i]) > slack) return text("has ", b[i], " at ", i, ", not ", a[i]);
    return "";
  }
  const auto a = wanted.tensor().values<double>(), b = got.tensor().values<double>();
  const Tolerance allowed = tolerance_of(wanted.element(), tolerance);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      std::abs(a[i] - b[i]) <= allowed.absolute + allowed.relative * std::abs(a[i]);
    if (!same) return text("has ", b[i], " at ", i, ", not ", a[i]);
  }
  return "";
}

/// The outputs: planned where that is possible, else op by op.
OnnxValues run(const OnnxModel& model, const OnnxValues& in, bool eager, bool& planned) {
  const bool tensors = std::all_of(in.begin(), in.end(), [](const OnnxValue& value) { return value.is_tensor(); });
  planned = false;
  if (eager || !tensors) return model(in);
  Tensors plain;
  for (const OnnxValue& value : in) plain.push_back(value.tensor());
  Types types;
  for (const Tensor& tensor : plain) types.push_back(tensor.type());
  OnnxValues traced;  // what is no traced tensor stands here as it is
  try {
    const Plan made = plan(
        [&](const Tensors& inputs) {
          OnnxValues values;
          for (std::size_t i = 0; i < inputs.size(); ++i) values.push_back({inputs[i], in[i].element()});
          traced = model(values);
          Tensors outputs;
          for (const OnnxValue& value : traced) {
            if (!value.is_tensor()) throw OnnxNeedsData("an output is no tensor");
            outputs.push_back(value.tensor());
          }
          return outputs;
        },
        types, {.freeze = true});
    const Tensors outputs = made(plain);
    OnnxValues out;
    for (std::size_t i = 0; i < outputs.size(); ++i) out.push_back({outputs[i], traced[i].element()});
    planned = true;
    return out;
  } catch (const OnnxNeedsData&) {
    return model(in);
  }
}

std::string run_test(const fs::path& folder, Tolerance tolerance, bool eager, bool& planned) {
  const OnnxModel model = OnnxModel::open(folder / "model.onnx");
  for (int set = 0;; ++set) {
    const fs::path data = folder / text("test_data_set_", set);
    if (!fs::exists(data)) return set == 0 ? "has no data" : "";
    OnnxValues in;
    for (std::size_t i = 0; i < model.inputs().size(); ++i) {
      const fs::path file = data / text("input_", i, ".pb");
      in.push_back(fs::exists(file) ? read_onnx_value(file, model.inputs()[i].kind) : OnnxValue());
    }
    const OnnxValues out = run(model, in, eager, planned);
    for (std::size_t i = 0; i < model.outputs().size(); ++i) {
      const fs::path file = data / text("output_", i, ".pb");
      if (!fs::exists(file)) continue;
      const std::string why = difference(read_onnx_value(file, model.outputs()[i].kind), out[i], tolerance);
      if (!why.empty()) return text("output ", i, " ", why);
    }
  }
}

std::vector<std::string> columns(const std::string& line) {
  std::vector<std::string> all;
  std::stringstream stream(line);
  for (std::string part; std::getline(stream, part, '\t');) all.push_back(part);
  return all;
}

struct Count {
  int passed = 0, planned = 0, all = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool eager = std::erase(words, "--eager") > 0;
  if (words.empty() || words.size() > 2) {
    std::cerr << "usage: onnx_conformance FOLDER [--eager] [REGEX]\n";
    return 2;
  }
  initialize();
  const std::regex wanted(words.size() > 1 ? words[1] : "");
  std::ifstream manifest(fs::path(words[0]) / "MANIFEST.tsv");
  std::map<std::string, Count> tiers;
  std::string line;
  for (std::getline(manifest, line); std::getline(manifest, line);) {
    const std::vector<std::string> row = columns(line);
    if (row.size() < 7 || !(std::regex_search(row[3], wanted) || std::regex_search(row[0], wanted))) continue;
    Count& score = tiers[row[1]];
    ++score.all;
    bool planned = false;
    std::string why;
    try {
      why = run_test(fs::path(words[0]) / row[0], {std::stod(row[5]), std::stod(row[6])}, eager, planned);
    } catch (const std::exception& error) {
      why = error.what();
    }
    score.passed += why.empty();
    score.planned += why.empty() && planned;
    if (!why.empty()) std::cout << "FAIL\t" << row[1] << '\t' << row[3] << '\t' << row[0] << '\t' << why << '\n';
  }
  for (const auto& [tier, score] : tiers)
    std::cout << "tier\t" << tier << '\t' << score.passed << '\t' << score.all << '\t' << score.planned << '\n';
  return 0;
}
