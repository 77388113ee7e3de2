// Times one op through each kernel that takes it, beside what the machine allows:
//
//   lab OP SHAPE… [ATTRIBUTE=VALUE …] [layout=plain] [known=false] [precision=f32] [only=KERNEL] [threads=N] [seconds=1]
//   lab conv2d 16x64x56x56 64x64x3x3 pad=1,1,1,1
//   lab conv2d_weight_grad 16x64x56x56 16x64x56x56 weight_shape=64,64,3,3 pad=1,1,1,1 threads=1
//
// A SHAPE is an input of f32, or of another dtype as in i64:16 (integers are all 0); attributes are the op's
// own, as `Graph::text` prints them. layout: in which inputs of three and more axes are offered, plain,
// channels_last, blocked (by 16 channels), batch_blocked or last_blocked; kernels that want others take those. known:
// all inputs but the first are constants, as weights are in a frozen plan. precision: what the factors of products may
// be rounded to, f32, bf16 or fp16. The plain loops of the reference are timed only where only=reference asks for them.
// The kernels take turns, in five rounds of `seconds` in all for each; bytes are those of inputs and outputs in the
// kernel's layouts.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <deque>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/program.h"
#include "neurim/cli/measure.h"
#include "neurim/compile/roofline.h"
#include "neurim/graph/kernel.h"
#include "neurim/hardware/peaks.h"
#include "neurim/neurim.h"

namespace neurim {
namespace {

constexpr int kRounds = 5;

using Settings = std::map<std::string, std::string, std::less<>>;

template <class T>
void read(std::string_view name, const std::string& word, T& value) {
  const char* const end = word.data() + word.size();
  require(std::from_chars(word.data(), end, value).ptr == end && !word.empty(), name, ": '", word, "' is no number");
}
void read(std::string_view, const std::string& word, std::string& value) { value = word; }
void read(std::string_view name, const std::string& word, bool& value) {
  require(word == "true" || word == "false", name, ": '", word, "' is not true or false");
  value = word == "true";
}
void read(std::string_view name, const std::string& word, DType& value) {
  const std::optional<DType> dtype = dtype_named(word);
  require(dtype.has_value(), name, ": there is no dtype '", word, "'");
  value = *dtype;
}
template <class T>
void read(std::string_view name, const std::string& word, std::vector<T>& values) {
  values.clear();
  for (const std::string& part : split(word, ',')) read(name, part, values.emplace_back());
}

/// Sets the attributes of an op that are named, and takes their names out of the settings.
class Attributes final : public Fields {
 public:
  explicit Attributes(Settings& settings) : settings_(settings) {}
  Fields& operator()(std::string_view name, std::int64_t& value) override { return set(name, value); }
  Fields& operator()(std::string_view name, double& value) override { return set(name, value); }
  Fields& operator()(std::string_view name, bool& value) override { return set(name, value); }
  Fields& operator()(std::string_view name, std::string& value) override { return set(name, value); }
  Fields& operator()(std::string_view name, DType& value) override { return set(name, value); }
  Fields& operator()(std::string_view name, std::vector<std::int64_t>& value) override { return set(name, value); }
  Fields& operator()(std::string_view name, std::vector<double>& value) override { return set(name, value); }

  const std::vector<std::string>& names() const { return names_; }

 private:
  template <class T>
  Fields& set(std::string_view name, T& value) {
    names_.emplace_back(name);
    if (const auto at = settings_.find(name); at != settings_.end()) {
      read(name, at->second, value);
      settings_.erase(at);
    }
    return *this;
  }
  Settings& settings_;
  std::vector<std::string> names_;
};

Type type_of(const std::string& word) {
  Type type;
  const std::size_t colon = word.find(':');
  if (colon != std::string::npos) read(word, word.substr(0, colon), type.dtype);
  std::vector<std::int64_t> sizes;
  for (const std::string& size : split(word.substr(colon == std::string::npos ? 0 : colon + 1), 'x'))
    read(word, size, sizes.emplace_back());
  type.shape = Shape(sizes);
  return type;
}

Layout layout_named(const std::string& name) {
  if (name == "plain") return {};
  if (name == "channels_last") return {Layout::channels_last};
  if (name == "blocked") return {Layout::blocked, 16};
  if (name == "batch_blocked") return {Layout::batch_blocked, 16};
  if (name == "last_blocked") return {Layout::last_blocked, 16};
  fail(Fault::usage, "layout: there is no '", name,
       "'; known are plain, channels_last, blocked, batch_blocked, last_blocked");
}

/// One op as one kernel prepared it, with operands of its own.
class Trial {
 public:
  Trial(const Kernel& kernel, const Op& op, const Tensors& in, const Layout& layout, bool known, DType products)
      : name_(kernel.name), step_{&op, {}, {}} {
    Types types;
    for (const Tensor& tensor : in) {
      types.push_back(tensor.type());
      step_.in.push_back(add(tensor.type(), kernel.propose_layouts && tensor.rank() >= 3 ? layout : Layout{}));
      descs_.back().constant = known && step_.in.size() > 1;
    }
    for (const Type& type : op.infer(types)) step_.out.push_back(add(type, {}));
    request_.steps = {&step_, 1};
    request_.values = descs_;
    request_.in = step_.in;
    request_.out = step_.out;
    request_.chunks = threads();
    request_.compute_dtype = products;
    if (kernel.fused_only) {
      request_.why = "takes chains of ops only";
      return;
    }
    if (kernel.propose_layouts && !kernel.propose_layouts(request_)) return;
    for (std::size_t i = 0; i < in.size(); ++i) {
      std::vector<std::byte> row_major(neurim::bytes(in[i].type()));
      in[i].read(row_major.data());
      pack(descs_[i].type, descs_[i].layout, row_major.data(), allocate(operand_bytes(descs_[i])));
      if (descs_[i].constant) descs_[i].known = pointers_.back();
    }
    launch_ = kernel.prepare(request_);
    for (std::size_t i = in.size(); i < descs_.size(); ++i) allocate(operand_bytes(descs_[i]));
    allocate(request_.scratch);
    allocate(launch_.workspace_bytes());
  }
  Trial(const Trial&) = delete;

  const std::string& name() const { return name_; }
  bool accepted() const { return static_cast<bool>(launch_); }
  const std::string& why_not() const { return request_.why; }
  DType used_dtype() const { return request_.used_dtype; }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const TensorDesc& desc : descs_) sum += operand_bytes(desc);
    return sum;
  }

  /// Runs for so many seconds, at least once.
  void run_for(double seconds) {
    const Call call{launch_,
                    0,
                    static_cast<std::uint16_t>(step_.in.size()),
                    static_cast<std::uint16_t>(step_.out.size()),
                    false,
                    launch_.workspace_step()};
    Stream& stream = default_stream(Device{});
    std::uint32_t status = 0;
    const auto run = [&] {
      stream.run({&call, 1}, pointers_.data(), &status);
      stream.wait();
    };
    const std::vector<double> times = cli::times_of(run, seconds);
    times_.insert(times_.end(), times.begin(), times.end());
    if (status != 0) fail(Fault::failure, name_, ": reported fault ", status);
  }
  void forget_times() { times_.clear(); }
  /// From the shortest.
  std::vector<double> times() const {
    std::vector<double> sorted = times_;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

 private:
  int add(const Type& type, const Layout& layout) {
    descs_.push_back({type, layout});
    return static_cast<int>(descs_.size()) - 1;
  }
  static std::size_t operand_bytes(const TensorDesc& desc) { return neurim::bytes(desc.type, desc.layout); }
  void* allocate(std::size_t size) {
    memory_.emplace_back(Device{}, std::max<std::size_t>(size, 1));
    pointers_.push_back(memory_.back().data());
    return pointers_.back();
  }

  std::string name_;
  Step step_;
  std::vector<TensorDesc> descs_;  // inputs, then outputs
  KernelRequest request_;
  Launch launch_;
  std::deque<Storage> memory_;
  std::vector<void*> pointers_;
  std::vector<double> times_;
};

/// A line for each kernel.
void report(const std::deque<Trial>& trials, std::int64_t multiply_adds) {
  const Peaks peaks = measure_peaks(threads());
  const double operations = 2 * static_cast<double>(multiply_adds), peak = peaks.arithmetic[0].operations;
  std::printf("%d threads at once: %s %.0f GFLOP/s\n", peaks.threads, peaks.arithmetic[0].name.c_str(), peak * 1e-9);
  std::printf("%-24s %9s %9s %9s %6s %9s %6s %6s\n", "kernel", "ms", "best ms", "GFLOP/s", "peak%", "GB/s", "bound",
              "roof%");
  for (const Trial& trial : trials) {
    if (!trial.accepted()) {
      std::printf("%-24s declined: %s\n", trial.name().c_str(), trial.why_not().c_str());
      continue;
    }
    const std::vector<double> times = trial.times();
    const double median = times[times.size() / 2];
    const Roof limit = roof(multiply_adds, trial.bytes(), peaks, trial.used_dtype());
    std::printf("%-24s %9.4f %9.4f %9.1f %6.1f %9.1f %6s %6.1f\n", trial.name().c_str(), median * 1e3, times[0] * 1e3,
                operations / median * 1e-9, 100 * operations / median / peak,
                static_cast<double>(trial.bytes()) / median * 1e-9, limit.bound.c_str(), 100 * limit.seconds / median);
  }
}

void main_of(const std::vector<std::string>& words) {
  require(!words.empty(), "usage: lab OP SHAPE… [ATTRIBUTE=VALUE …] [layout=plain] [known=false] [precision=f32] ",
          "[only=KERNEL] [threads=N] [seconds=1], as in lab conv2d 16x64x56x56 64x64x3x3 pad=1,1,1,1");
  initialize();
  const std::vector<std::string> known_ops = op_names();
  if (std::find(known_ops.begin(), known_ops.end(), words[0]) == known_ops.end()) {
    const std::string near = nearest(words[0], known_ops);
    fail(Fault::usage, "there is no op '", words[0], '\'', near.empty() ? "" : text("; did you mean '", near, "'?"));
  }

  Types types;
  Settings settings{{"layout", "plain"}, {"known", "false"}, {"precision", "f32"}, {"only", ""}, {"seconds", "1"}};
  settings["threads"] = text(threads());
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == std::string::npos)
      types.push_back(type_of(words[i]));
    else
      settings[words[i].substr(0, equals)] = words[i].substr(equals + 1);
  }
  const auto take = [&](const char* name, auto value) {
    read(name, settings.extract(name).mapped(), value);
    return value;
  };
  const Layout layout = layout_named(take("layout", std::string()));
  const bool known = take("known", false);
  const DType products = compute_dtype_named(take("precision", std::string()));
  const std::string wanted = take("only", std::string());
  set_threads(take("threads", std::int64_t{}));
  const double seconds = take("seconds", 0.0);
  const std::shared_ptr<Op> op = make_op(words[0]);
  Attributes attributes(settings);
  op->fields(attributes);
  if (!settings.empty())
    fail(Fault::usage, words[0], " has no attribute '", settings.begin()->first, "'; it has ",
         attributes.names().empty() ? "none" : join(attributes.names(), ", "));

  op->infer(types);  // or says what does not fit
  Tensors in;
  for (const Type& type : types)
    in.push_back(is_floating(type.dtype) ? cast(random_uniform(type.shape, -1, 1), type.dtype) : Tensor::full(type, 0));
  std::deque<Trial> trials;
  for (const Kernel& kernel : kernels(words[0], 0))
    if (wanted.empty() ? kernel.rank > 0 : kernel.name == wanted)
      trials.emplace_back(kernel, *op, in, layout, known, products);
  std::vector<std::string> reasons;
  for (const Trial& trial : trials) reasons.push_back(text(trial.name(), ": ", trial.why_not()));
  if (std::none_of(trials.begin(), trials.end(), [](const Trial& trial) { return trial.accepted(); }))
    fail(Fault::usage, words[0], ": no kernel ", wanted.empty() ? "but the reference" : text("'", wanted, '\''),
         " takes it", reasons.empty() ? "" : text(" (", join(reasons, "; "), ')'));

  for (int round = -1; round < kRounds; ++round)  // the first warms up
    for (Trial& trial : trials) {
      if (!trial.accepted()) continue;
      if (round == 0) trial.forget_times();
      trial.run_for(seconds / kRounds);
    }
  std::vector<std::string> shown;
  for (const Type& type : types) shown.push_back(text(type));
  const std::int64_t multiply_adds = op->multiply_adds(types);
  std::cout << words[0] << ' ' << join(shown, " ") << ' ' << neurim::attributes(*op) << ": " << multiply_adds
            << " multiply-adds" << std::endl;
  report(trials, multiply_adds);
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) { return neurim::run_program(argc, argv, neurim::main_of); }
