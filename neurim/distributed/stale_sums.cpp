#include "neurim/distributed/stale_sums.h"

namespace neurim {

void StaleSums::put(std::vector<float> values) {
  require(clock_ - taken_ <= bound_, "sums: clock ", clock_, " is ", clock_ - taken_, " ahead of the ", taken_,
          " sums that were taken, and the bound is ", bound_, "; take them first");
  OnItsWay& own = sums_.emplace_back();
  own.values = std::make_unique<std::vector<float>>(std::move(values));
  own.work = group_.run([numbers = own.values.get()](ProcessGroup& group) { group.all_reduce(*numbers); });
  ++clock_;
}

std::optional<std::vector<float>> StaleSums::take(bool all) {
  if (sums_.empty()) return {};
  const bool due = all || clock_ - taken_ > bound_;
  if (!due && !sums_.front().work.done()) return {};
  const auto begin = std::chrono::steady_clock::now();
  sums_.front().work.wait();
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::vector<float> values = std::move(*sums_.front().values);
  sums_.pop_front();
  ++taken_;
  return values;
}

}  // namespace neurim
