#include "neurim/distributed/message_group.h"

#include <algorithm>

#include "neurim/base/bytes.h"
#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/core/float16.h"
#include "neurim/distributed/sub_wire.h"

namespace neurim {

namespace {

constexpr std::size_t kPieceBytes = 1 << 18;     // that are combined at once
constexpr std::size_t kMostGathered = 1u << 30;  // of a rank in all_gather and all_to_all

template <class Number>
void combine(std::span<Number> into, std::span<const Number> other, Reduction reduction) {
  const auto each = [&](const auto& of_two) {
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = of_two(into[i], other[i]);
  };
  switch (reduction) {
    case Reduction::sum: return each([](Number a, Number b) { return a + b; });
    case Reduction::min: return each([](Number a, Number b) { return std::min(a, b); });
    case Reduction::max: return each([](Number a, Number b) { return std::max(a, b); });
    case Reduction::product: return each([](Number a, Number b) { return a * b; });
  }
}

/// The first becomes the reduction of all, as combine_order says.
template <class Number>
void combine_all(const std::vector<std::span<Number>>& parts, Reduction reduction) {
  for (const auto& [into, other] : combine_order(parts.size())) combine<Number>(parts[into], parts[other], reduction);
}

/// Numbers as they are sent: themselves, or rounded to 16 bits.
template <class Number>
class Packed {
 public:
  Packed(std::span<Number> numbers, DType sent) : numbers_(numbers), sent_(sent) {
    if (sent != DType::f32) words_.resize(numbers.size());
  }
  /// What is sent of the numbers.
  std::span<const std::byte> packed() {
    if (sent_ == DType::f32) return std::as_bytes(numbers_);
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const auto number = static_cast<float>(numbers_[i]);
      words_[i] = sent_ == DType::f16 ? to_f16(number) : to_bf16(number);
    }
    return std::as_bytes(std::span(words_));
  }
  /// Where it is received.
  std::span<std::byte> place() {
    return sent_ == DType::f32 ? std::as_writable_bytes(numbers_) : std::as_writable_bytes(std::span(words_));
  }
  /// Makes numbers of what was received, or packed.
  void unpack() {
    for (std::size_t i = 0; i < words_.size(); ++i)
      numbers_[i] = static_cast<Number>(sent_ == DType::f16 ? from_f16(words_[i]) : from_bf16(words_[i]));
  }

 private:
  std::span<Number> numbers_;
  const DType sent_;
  std::vector<std::uint16_t> words_;
};

const char* name_of(Reduction reduction) {
  constexpr const char* kNames[] = {"all_reduce sum", "all_reduce min", "all_reduce max", "all_reduce product"};
  return kNames[static_cast<std::size_t>(reduction)];
}

void check_sent(DType sent) {
  require(sent == DType::f32 || sent == DType::bf16 || sent == DType::f16, "numbers are sent as ", sent,
          "; known are f32, bf16, f16");
}

}  // namespace

template <class Steps>
void MessageGroup::run_numbered(Operation operation, const Steps& steps) {
  if (failed_) fail(Fault::failure, wire_->named(rank()), ": ", operation.name, " after the group has failed");
  const std::uint64_t number = recorder_->begin(operation);
  try {
    steps(operation, std::chrono::steady_clock::now() + timeout_);
    recorder_->end(number, false);
  } catch (const Error& error) {
    failed_ = true;
    recorder_->end(number, true);
    wire_->give_up(error.what());
    fail(Fault::failure, wire_->named(rank()), ": operation ", operation.number, " (", operation.name, " of ",
         operation.bytes, " bytes): ", error.what());
  }
}

template <class Steps>
void MessageGroup::run(const char* name, std::size_t bytes, const Steps& steps) {
  run_numbered({++operations_, name, bytes}, steps);
}

template <class Step>
void MessageGroup::with_each(const Step& step) const {
  const int ranks = size();
  for (int apart = 1; apart < ranks; ++apart) step((rank() + apart) % ranks, (rank() - apart + ranks) % ranks);
}

void MessageGroup::check_rank(const char* name, int rank) const {
  require(rank >= 0 && rank < size(), name, ": there is no rank ", rank, " of ", size());
}

void MessageGroup::check_bounds(const char* name, std::size_t count, std::span<const std::size_t> bounds) const {
  require(bounds.size() == static_cast<std::size_t>(size()) + 1 && bounds.front() == 0 && bounds.back() == count &&
              std::is_sorted(bounds.begin(), bounds.end()),
          name, ": the bounds of ", count, " numbers are ", size() + 1, " offsets from 0 to ", count);
}

namespace {

template <class Number>
std::span<Number> part_of(std::span<Number> values, std::span<const std::size_t> bounds, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return values.subspan(bounds[r], bounds[r + 1] - bounds[r]);
}

}  // namespace

/// In pieces, which are combined while they are in a core's cache.
template <class Number>
void MessageGroup::scatter(const Operation& operation, std::span<Number> values, std::span<const std::size_t> bounds,
                           Reduction reduction, DType sent, Deadline until) {
  constexpr std::size_t kPiece = kPieceBytes / sizeof(Number);
  const auto piece_of = [&](int rank, std::size_t begin) {
    const std::span<Number> part = part_of(values, bounds, rank);
    return begin < part.size() ? part.subspan(begin, std::min(kPiece, part.size() - begin)) : std::span<Number>();
  };
  std::size_t longest = 0;
  for (int r = 0; r < size(); ++r) longest = std::max(longest, part_of(values, bounds, r).size());
  const std::size_t piece_bytes = std::min(kPiece, longest) * sizeof(Number), ranks = static_cast<std::size_t>(size());
  if (arrived_.size() < piece_bytes * ranks) arrived_.resize(piece_bytes * ranks);
  for (std::size_t begin = 0; begin < longest; begin += kPiece) {
    const std::span<Number> own = piece_of(rank(), begin);
    std::vector<std::span<Number>> parts(ranks, own);
    with_each([&](int to, int from) {
      auto* const memory = reinterpret_cast<Number*>(arrived_.data() + static_cast<std::size_t>(from) * piece_bytes);
      const std::span<Number> place(memory, own.size()), theirs = piece_of(to, begin);
      parts[static_cast<std::size_t>(from)] = place;
      Packed<Number> out(theirs, sent), in(place, sent);
      wire_->exchange(operation, theirs.empty() ? Wire::kNobody : to, out.packed(), own.empty() ? Wire::kNobody : from,
                      in.place(), until);
      in.unpack();
    });
    combine_all<Number>(parts, reduction);
    if (rank() > 0) std::copy(parts[0].begin(), parts[0].end(), own.begin());
  }
}

template <class Number>
void MessageGroup::gather(const Operation& operation, std::span<Number> values, std::span<const std::size_t> bounds,
                          DType sent, Deadline until) {
  Packed<Number> own(part_of(values, bounds, rank()), sent);
  const std::span<const std::byte> out = own.packed();
  own.unpack();  // all have the same numbers then
  with_each([&](int to, int from) {
    Packed<Number> in(part_of(values, bounds, from), sent);
    wire_->exchange(operation, to, out, from, in.place(), until);
    in.unpack();
  });
}

template <class Number>
void MessageGroup::reduce(std::span<Number> values, Reduction reduction, DType sent) {
  run(name_of(reduction), values.size_bytes(), [&](const Operation& operation, Deadline until) {
    if (values.size_bytes() > kSentWhole) {
      const std::vector<std::size_t> bounds = even_bounds(values.size(), size());
      scatter(operation, values, bounds, reduction, sent, until);
      return gather<Number>(operation, values, bounds, sent, until);
    }
    std::vector<Number> all(values.size() * static_cast<std::size_t>(size()));
    std::vector<std::size_t> bounds;
    for (std::size_t r = 0; r <= static_cast<std::size_t>(size()); ++r) bounds.push_back(r * values.size());
    const std::span<Number> whole = all;
    std::copy(values.begin(), values.end(), part_of(whole, bounds, rank()).begin());
    gather(operation, whole, bounds, sent, until);
    std::vector<std::span<Number>> parts;
    for (int r = 0; r < size(); ++r) parts.push_back(part_of(whole, bounds, r));
    combine_all<Number>(parts, reduction);
    std::copy(parts[0].begin(), parts[0].end(), values.begin());
  });
}

void MessageGroup::all_reduce(std::span<float> values, Reduction reduction, DType sent) {
  check_sent(sent);
  reduce(values, reduction, sent);
}

void MessageGroup::all_reduce(std::span<double> values, Reduction reduction) { reduce(values, reduction, DType::f32); }

void MessageGroup::reduce_scatter(std::span<float> values, std::span<const std::size_t> bounds, DType sent) {
  check_bounds("reduce_scatter", values.size(), bounds);
  check_sent(sent);
  run("reduce_scatter sum", values.size_bytes(), [&](const Operation& operation, Deadline until) {
    scatter(operation, values, bounds, Reduction::sum, sent, until);
  });
}

void MessageGroup::all_gather(std::span<float> values, std::span<const std::size_t> bounds, DType sent) {
  check_bounds("all_gather", values.size(), bounds);
  check_sent(sent);
  run("all_gather parts", values.size_bytes(),
      [&](const Operation& operation, Deadline until) { gather(operation, values, bounds, sent, until); });
}

std::vector<std::string> MessageGroup::all_gather(std::string_view bytes) {
  return all_to_all(std::vector<std::string>(static_cast<std::size_t>(size()), std::string(bytes)));
}

std::vector<std::string> MessageGroup::all_to_all(const std::vector<std::string>& bytes) {
  require(std::ssize(bytes) == size(), "all_to_all: there are messages for ", bytes.size(), " ranks of ", size());
  std::vector<std::string> all(bytes.size());
  all[static_cast<std::size_t>(rank())] = bytes[static_cast<std::size_t>(rank())];
  run("all_to_all", 0, [&](const Operation& operation, Deadline until) {
    with_each([&](int to, int from) {
      const std::string& out = bytes[static_cast<std::size_t>(to)];
      std::string& in = all[static_cast<std::size_t>(from)];
      std::string mine, theirs(8, '\0');
      put_little_endian(mine, out.size(), 8);
      wire_->exchange(operation, to, std::as_bytes(std::span(mine)), from, std::as_writable_bytes(std::span(theirs)),
                      until);
      const std::uint64_t size = little(theirs, 0, 8);
      if (size > kMostGathered) fail(Fault::failure, wire_->named(from), ": a message claims ", size, " bytes");
      in.resize(size);
      wire_->exchange(operation, to, std::as_bytes(std::span(out)), from, std::as_writable_bytes(std::span(in)), until);
    });
  });
  return all;
}

/// Along a binomial tree: after each round twice as many ranks have the bytes.
void MessageGroup::broadcast(std::span<std::byte> bytes, int root) {
  check_rank("broadcast", root);
  run("broadcast", bytes.size(), [&](const Operation& operation, Deadline until) {
    const int ranks = size(), place = (rank() - root + ranks) % ranks;  // 0: the root
    for (int have = 1; have < ranks; have *= 2) {
      if (place < have && place + have < ranks)
        wire_->exchange(operation, (place + have + root) % ranks, bytes, Wire::kNobody, {}, until);
      else if (place >= have && place < 2 * have)
        wire_->exchange(operation, Wire::kNobody, {}, (place - have + root) % ranks, bytes, until);
    }
  });
}

std::shared_ptr<ProcessGroup> MessageGroup::duplicate() {
  const std::string said = all_gather(rank() == 0 ? wire_->invitation() : "")[0];
  auto made = std::make_shared<MessageGroup>(wire_->duplicate(said), backend_, timeout_, recorder_);
  others_.push_back(made);
  return made;
}

std::shared_ptr<ProcessGroup> MessageGroup::subgroup(const std::vector<int>& ranks) {
  const std::string said = all_gather(rank() == 0 ? wire_->invitation() : "")[0];
  std::unique_ptr<Wire> wire = wire_->duplicate(said);
  if (ranks.size() == 1) return self_group();
  auto made = std::make_shared<MessageGroup>(sub_wire(std::move(wire), ranks), backend_, timeout_, recorder_);
  others_.push_back(made);
  return made;
}

void MessageGroup::abandon(const std::string& why) {
  wire_->give_up(text(wire_->named(rank()), ": ", why));
  for (const std::weak_ptr<MessageGroup>& other : others_)
    if (const std::shared_ptr<MessageGroup> one = other.lock()) one->abandon(why);
}

void MessageGroup::send(std::span<const std::byte> bytes, int to) {
  check_rank("send", to);
  require(to != rank(), "send: a rank does not send to itself");
  run_numbered({++sent_[to], "send", bytes.size()}, [&](const Operation& operation, Deadline until) {
    wire_->exchange(operation, to, bytes, Wire::kNobody, {}, until);
  });
}

void MessageGroup::receive(std::span<std::byte> bytes, int from) {
  check_rank("receive", from);
  require(from != rank(), "receive: a rank does not send to itself");
  run_numbered({++received_[from], "send", bytes.size()}, [&](const Operation& operation, Deadline until) {
    wire_->exchange(operation, Wire::kNobody, {}, from, bytes, until);
  });
}

}  // namespace neurim
