#include "neurim/distributed/joinable_group.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim {

namespace {

constexpr const char* kJoin = "join";

std::string sum_of(const char* type, std::size_t count, Reduction reduction, DType sent) {
  constexpr const char* kNames[] = {"sum", "min", "max", "product"};
  return text("all_reduce ", kNames[static_cast<std::size_t>(reduction)], " of ", count, ' ', type, " sent as ", sent);
}

/// The same words as sum_of; nothing where they say something else.
std::optional<std::pair<std::size_t, DType>> zeros_for(const std::string& operation, bool& doubles) {
  const std::vector<std::string> words = split(operation, ' ');
  if (words.size() != 8 || words[0] != "all_reduce" || words[1] != "sum") return {};
  doubles = words[4] == "f64";
  const auto sent = std::find_if(kDTypes.begin(), kDTypes.end(), [&](DType one) { return text(one) == words[7]; });
  return std::pair(std::stoul(words[3]), *sent);
}

}  // namespace

void JoinableGroup::announce(const std::string& operation) {
  const std::vector<std::string> all = group_->all_gather(operation);
  for (int other = 0; other < size(); ++other) {
    const std::string& theirs = all[static_cast<std::size_t>(other)];
    bool doubles = false;
    if (theirs == kJoin)
      require(zeros_for(operation, doubles).has_value(), operation, ": rank ", other,
              " has joined, and takes part in sums alone");
    else
      require(theirs == operation, "rank ", rank(), " does ", operation, ", and rank ", other, " does ", theirs,
              "; all ranks do the same in the same order");
  }
}

int JoinableGroup::join() {
  int last = rank();
  for (;;) {
    const std::vector<std::string> all = group_->all_gather(std::string_view(kJoin));
    const auto other = std::find_if(all.begin(), all.end(), [](const std::string& one) { return one != kJoin; });
    if (other == all.end()) return last;
    last = 0;
    for (int r = 0; r < size(); ++r)
      if (all[static_cast<std::size_t>(r)] != kJoin) last = r;
    bool doubles = false;
    const auto zeros = zeros_for(*other, doubles);
    require(zeros.has_value(), *other, ": rank ", rank(), " has joined, and takes part in sums alone");
    if (doubles) {
      std::vector<double> none(zeros->first);
      group_->all_reduce(none);
    } else {
      std::vector<float> none(zeros->first);
      group_->all_reduce(none, Reduction::sum, zeros->second);
    }
  }
}

void JoinableGroup::all_reduce(std::span<float> values, Reduction reduction, DType sent) {
  announce(sum_of("f32", values.size(), reduction, sent));
  group_->all_reduce(values, reduction, sent);
}
void JoinableGroup::all_reduce(std::span<double> values, Reduction reduction) {
  announce(sum_of("f64", values.size(), reduction, DType::f64));
  group_->all_reduce(values, reduction);
}
void JoinableGroup::reduce_scatter(std::span<float> values, std::span<const std::size_t> bounds, DType sent) {
  announce(text("reduce_scatter of ", values.size()));
  group_->reduce_scatter(values, bounds, sent);
}
void JoinableGroup::all_gather(std::span<float> values, std::span<const std::size_t> bounds, DType sent) {
  announce(text("all_gather of ", values.size()));
  group_->all_gather(values, bounds, sent);
}
std::vector<std::string> JoinableGroup::all_gather(std::string_view bytes) {
  announce("all_gather of bytes");
  return group_->all_gather(bytes);
}
void JoinableGroup::broadcast(std::span<std::byte> bytes, int root) {
  announce(text("broadcast of ", bytes.size(), " bytes from rank ", root));
  group_->broadcast(bytes, root);
}
std::vector<std::string> JoinableGroup::all_to_all(const std::vector<std::string>& bytes) {
  announce("all_to_all");
  return group_->all_to_all(bytes);
}
std::shared_ptr<ProcessGroup> JoinableGroup::duplicate() {
  announce("duplicate");
  return std::make_shared<JoinableGroup>(group_->duplicate());
}
std::shared_ptr<ProcessGroup> JoinableGroup::subgroup(const std::vector<int>& ranks) {
  announce("subgroup");
  return std::make_shared<JoinableGroup>(group_->subgroup(ranks));
}

}  // namespace neurim
