#include "neurim/compile/tune.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "neurim/base/error.h"
#include "neurim/compile/plan_instance.h"
#include "neurim/compile/tuning.h"
#include "neurim/graph/kernel.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

constexpr double kGain = 0.97;      // a kernel is another's better from this share of its time on
constexpr double kWorthIt = 0.003;  // of a plan's time: requests that take less keep the kernel of the highest rank
constexpr double
    kWhole = 0.1;           // seconds: plans up to here run whole in each round, so that caches hold what they would
constexpr int kBefore = 2;  // tasks that run before the measured ones, in longer plans
constexpr int kFewest = 3, kMost = 9;  // rounds
constexpr double kLong = 1.5;          // seconds of rounds, after which there are no more than the fewest
constexpr int kLeastRank = 2;          // kernels below are plain loops

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The graph with its state copied: plans of it change the copies.
Graph with_own_state(Graph graph) {
  for (Graph::Value& value : graph.values)
    if (value.captured && !value.captured.value()->constant) value.captured = value.captured.clone();
  return graph;
}

/// The graph with handles of its own on that state: what one plan repacks, others have where it was.
Graph with_own_handles(Graph graph) {
  for (Graph::Value& value : graph.values)
    if (value.captured && !value.captured.value()->constant)
      value.captured = Tensor(std::make_shared<Value>(*value.captured.value()));
  return graph;
}

/// A plan with some choices, and its tasks by what they do.
class Trial {
 public:
  Trial(const Graph& shared, PlanOptions options, const Tuning& choices, const std::shared_ptr<Storage>& memory) {
    options.tuning = std::make_shared<Tuning>(choices);
    const Graph graph = with_own_handles(shared);
    instance_ = std::make_unique<PlanInstance>(graph, options, std::make_shared<const Program>(build(graph, options)),
                                               memory);
    for (const Tensor& input : instance_->inputs) {
      const std::vector<std::byte> zeros(bytes(input.type()));
      input.write(zeros.data());
    }
    for (const Task& task : program().tasks) names_.push_back(name(task));
  }

  const Program& program() const { return *instance_->program; }
  const std::shared_ptr<Storage>& memory() const { return instance_->arena; }
  std::size_t size() const { return names_.size(); }
  std::vector<double> run(const std::vector<bool>& which) { return instance_->run_timed(which); }

  /// The kernel of the highest rank that has a task at the request; null where none has.
  const Kernel* kernel_at(const std::string& key) const {
    const Kernel* best = nullptr;
    for (const Task& task : program().tasks) {
      if (task.key != key) continue;
      for (const Kernel& kernel : kernels(op(task), program().graph.device.kind))
        if (kernel.name == task.kernel && (!best || kernel.rank > best->rank)) best = &kernel;
    }
    return best;
  }

  /// The best kernel for the request's op of a lower rank than that; null where only plain loops are left.
  const Kernel* below(const Kernel& kernel) const {
    for (const Kernel& other : kernels(kernel.op, program().graph.device.kind))
      if (other.rank < kernel.rank && other.rank >= kLeastRank) return &other;
    return nullptr;
  }

  /// The tasks that the other plan has not.
  std::vector<bool> beyond(const Trial& other) const {
    std::multiset<std::string> common(other.names_.begin(), other.names_.end());
    std::vector<bool> own;
    for (const std::string& name : names_) {
      const auto at = common.find(name);
      own.push_back(at == common.end());
      if (at != common.end()) common.erase(at);
    }
    return own;
  }

 private:
  std::string_view op(const Task& task) const { return program().graph.nodes[task.anchor].op->name(); }

  std::string name(const Task& task) const {
    std::string all = task.kernel;
    for (const int node : task.nodes) {
      const Op& op = *program().graph.nodes[node].op;
      all += text(' ', op.name(), attributes(op));
    }
    for (const auto* slots : {&task.in, &task.out})
      for (const int number : *slots) {
        const Slot& slot = program().slots[number];
        all += text(' ', program().type(slot), slot.layout);
      }
    return all;
  }

  std::unique_ptr<PlanInstance> instance_;
  std::vector<std::string> names_;
};

/// What runs in a round: the tasks that are timed, with those just before them, whose results would be in the caches;
/// or all.
std::vector<bool> around(const std::vector<bool>& timed, bool all) {
  std::vector<bool> run(timed.size(), all);
  for (std::size_t i = 0; i < timed.size(); ++i)
    for (std::size_t j = timed[i] ? i - std::min<std::size_t>(i, kBefore) : i + 1; j <= i; ++j) run[j] = true;
  return run;
}

double sum_of(const std::vector<double>& seconds, const std::vector<bool>& which) {
  double sum = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i)
    if (which[i]) sum += seconds[i];
  return sum;
}

/// Whether what the other plan has of its own is faster than what this one has instead.
bool is_faster(Trial& other, Trial& than, bool whole) {
  const std::vector<bool> new_ones = other.beyond(than), old_ones = than.beyond(other);
  if (std::find(new_ones.begin(), new_ones.end(), true) == new_ones.end()) return false;
  const std::vector<bool> new_run = around(new_ones, whole), old_run = around(old_ones, whole);
  std::vector<double> ratios;
  double taken = 0;
  for (int round = -1; round < kMost && (round < kFewest || taken < kLong); ++round) {
    const double before = sum_of(than.run(old_run), old_ones), now = sum_of(other.run(new_run), new_ones);
    if (round < 0) continue;  // which reads code and weights for the first time
    ratios.push_back(now / before);
    taken += before + now;
  }
  const auto slower = std::count_if(ratios.begin(), ratios.end(), [](double ratio) { return ratio >= 1; });
  return median(ratios) < kGain && slower <= std::ssize(ratios) / 4;
}

}  // namespace

bool to_measure(const Program& program, const Tuning& tuning) {
  return tuning.mode() == Tuning::Mode::measure &&
         std::any_of(program.tasks.begin(), program.tasks.end(),
                     [&](const Task& task) { return !task.key.empty() && !tuning.chosen(task.key); });
}

void tune(const Graph& traced, const PlanOptions& options) {
  Tuning& tuning = *options.tuning;
  const Graph graph = with_own_state(traced);
  auto best = std::make_unique<Trial>(graph, options, tuning, nullptr);
  while (to_measure(best->program(), tuning)) {  // again for what another choice has taken out of a fusion group
    const std::vector<bool> all(best->size(), true);
    std::vector<double> seconds = best->run(all);
    seconds = best->run(all);  // again, with what the first one has brought into memory
    const double whole = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    std::map<std::string, double> keys;
    for (std::size_t i = 0; i < best->size(); ++i)
      if (const std::string& key = best->program().tasks[i].key; !key.empty() && !tuning.chosen(key))
        keys[key] += seconds[i];
    for (const auto& [key, time] : keys) {
      const Kernel* kernel = best->kernel_at(key);
      if (!kernel) continue;  // another choice has taken it into the fusion group of another
      tuning.choose(key, std::string(kernel->name));
      if (time < kWorthIt * whole) continue;
      Tuning choices = tuning;
      for (const Kernel* next = best->below(*kernel); next; next = best->below(*next)) {
        choices.choose(key, std::string(next->name));
        auto trial = std::make_unique<Trial>(graph, options, choices, best->memory());
        const Kernel* const taken = trial->kernel_at(key);
        if (!taken || taken->rank > next->rank) break;  // nothing is there, or nothing else
        next = taken;
        if (!is_faster(*trial, *best, whole < kWhole)) continue;
        tuning.choose(key, std::string(taken->name));
        best = std::move(trial);
      }
    }
  }
  tuning.save();
}

}  // namespace neurim
