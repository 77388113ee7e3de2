#include "neurim/weights/pickle.h"

#include <bit>
#include <unordered_map>

#include "neurim/base/bytes.h"
#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr std::size_t kMostItems = std::size_t{1} << 21;
constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::size_t kLongestName = 200;

/// pickletools' names for the operations that are read.
enum Code : unsigned char {
  kMark = '(',
  kStop = '.',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  // of protocol 4
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

[[noreturn]] void damaged() { fail(Fault::data, "its pickle is damaged; get or save the file again"); }

}  // namespace

/// The machine that a pickle is a program of: a stack, the marks on it, and a memory of earlier values.
class PickleReader {
 public:
  PickleReader(std::string_view bytes, bool (*allowed)(std::string_view), Pickle& pickle)
      : bytes_(bytes), allowed_(allowed), pickle_(pickle) {}

  void run() {
    if (number(1) != kProto) fail(Fault::data, "holds no pickle of protocol 2 or later", kSaveTensors);
    if (const std::uint64_t protocol = number(1); protocol < 2 || protocol > 5)
      fail(Fault::data, "is a pickle of protocol ", protocol, "; 2 to 5 are read", kSaveTensors);
    for (std::uint64_t code = number(1); code != kStop; code = number(1)) step(code);
    pickle_.root_ = pop();
    pickle_.size_ = at_;
  }

 private:
  using Kind = PickleNode::Kind;
  using Items = std::vector<PickleItem>;

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail(Fault::data, "its pickle is cut off; get or save the file again");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  std::uint64_t number(std::size_t size) { return little(take(size), 0, size); }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) damaged();
    const std::string_view found = take(end - at_);
    take(1);
    return found;
  }

  /// Every value that is made or copied counts, so that memory stays in proportion to the file's size.
  void count(std::size_t items) {
    items_ += items;
    if (items_ > kMostItems) fail(Fault::data, "its pickle has more than ", kMostItems, " values", kSaveTensors);
  }
  void push(const PickleItem& item) {
    count(1);
    stack_.push_back(item);
  }
  void push(Kind kind, std::string name, Items items) {
    count(items.size());
    push(&pickle_.nodes_.emplace_back(PickleNode{kind, std::move(name), std::move(items)}));
  }
  std::string_view pop_string() {
    const PickleItem item = pop();
    const auto* string = std::get_if<std::string_view>(&item);
    if (!string) damaged();
    return *string;
  }
  PickleItem pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) damaged();
    const PickleItem item = stack_.back();
    stack_.pop_back();
    return item;
  }
  Items pop(std::size_t count) {
    if (stack_.size() < count + (marks_.empty() ? 0 : marks_.back())) damaged();
    return pop_from(stack_.size() - count);
  }
  Items pop_to_mark() {
    if (marks_.empty()) damaged();
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return pop_from(mark);
  }
  Items pop_from(std::size_t begin) {
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(begin);
    Items items(from, stack_.end());
    stack_.erase(from, stack_.end());
    return items;
  }
  /// The dict or list on top of the stack, to be added to: the nodes are this machine's own.
  PickleNode& top(Kind kind) {
    const PickleItem item = pop();
    const PickleNode* node = node_of(item, kind);
    if (!node) damaged();
    stack_.push_back(item);
    return const_cast<PickleNode&>(*node);
  }
  void add(Kind kind, const Items& items) {
    Items& to = top(kind).items;
    if (kind == Kind::dict && items.size() % 2 != 0) damaged();
    to.insert(to.end(), items.begin(), items.end());
  }

  void global(std::string_view module, std::string_view name) {
    if (module.size() > kLongestName || name.size() > kLongestName) damaged();
    std::string full = text(module, '.', name);
    if (full != kOrderedDict && !allowed_(full))
      fail(Fault::data, "its pickle names ", full, ", which state dicts are not made of and which is not run here",
           kSaveTensors);
    push(Kind::global, std::move(full), {});
  }

  void reduce() {
    const PickleItem arguments = pop(), callable = pop();
    const PickleNode* tuple = node_of(arguments, Kind::tuple);
    const PickleNode* function = node_of(callable, Kind::global);
    if (!tuple || !function) damaged();
    if (function->name != kOrderedDict) return push(Kind::call, function->name, tuple->items);
    // Python 2 gives the pairs of an OrderedDict as lists in a list, Python 3 adds them afterwards.
    Items pairs;
    if (!tuple->items.empty()) {
      const PickleNode* list = node_of(tuple->items[0], Kind::list);
      if (!list || tuple->items.size() > 1) damaged();
      for (const PickleItem& item : list->items) {
        const PickleNode* pair = node_of(item, Kind::list);
        if (!pair || pair->items.size() != 2) damaged();
        count(2);
        pairs.insert(pairs.end(), pair->items.begin(), pair->items.end());
      }
    }
    push(Kind::dict, {}, std::move(pairs));
  }

  std::int64_t integer(std::size_t size) {
    if (size > 8) fail(Fault::data, "its pickle has an integer of more than 64 bits", kSaveTensors);
    if (size == 0) return 0;
    const std::size_t unused = 64 - 8 * size;
    return static_cast<std::int64_t>(number(size) << unused) >> unused;
  }
  double real() {
    std::uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);  // big-endian
    return std::bit_cast<double>(bits);
  }

  void remember(std::uint64_t key) {
    const PickleItem item = pop();
    stack_.push_back(item);
    count(1);
    memory_[key] = item;
  }
  void recall(std::uint64_t key) {
    const auto found = memory_.find(key);
    if (found == memory_.end()) damaged();
    push(found->second);
  }

  void step(std::uint64_t code) {
    switch (code) {
      case kFrame:  // how many bytes a reader may fetch at once
        take(8);
        return;
      case kMark: count(1); return marks_.push_back(stack_.size());
      case kNone: return push(std::monostate());
      case kNewTrue: return push(true);
      case kNewFalse: return push(false);
      case kBinInt: return push(integer(4));
      case kBinInt1: return push(static_cast<std::int64_t>(number(1)));
      case kBinInt2: return push(static_cast<std::int64_t>(number(2)));
      case kLong1: return push(integer(number(1)));
      case kBinFloat: return push(real());
      case kShortBinString:
      case kShortBinUnicode:
      case kShortBinBytes: return push(take(number(1)));
      case kBinString:
      case kBinUnicode:
      case kBinBytes: return push(take(number(4)));
      case kBinUnicode8: return push(take(number(8)));
      case kEmptyTuple: return push(Kind::tuple, {}, {});
      case kEmptyList: return push(Kind::list, {}, {});
      case kEmptyDict: return push(Kind::dict, {}, {});
      case kTuple: return push(Kind::tuple, {}, pop_to_mark());
      case kTuple1: return push(Kind::tuple, {}, pop(1));
      case kTuple2: return push(Kind::tuple, {}, pop(2));
      case kTuple3: return push(Kind::tuple, {}, pop(3));
      case kAppend: return add(Kind::list, pop(1));
      case kAppends: return add(Kind::list, pop_to_mark());
      case kSetItem: return add(Kind::dict, pop(2));
      case kSetItems: return add(Kind::dict, pop_to_mark());
      case kBinPut: return remember(number(1));
      case kLongBinPut: return remember(number(4));
      case kMemoize: return remember(memory_.size());
      case kBinGet: return recall(number(1));
      case kLongBinGet: return recall(number(4));
      case kGlobal: {
        const std::string_view module = line();
        return global(module, line());
      }
      case kStackGlobal: {
        const std::string_view name = pop_string();
        return global(pop_string(), name);
      }
      case kReduce: return reduce();
      case kBuild: {  // the attributes of an OrderedDict, such as the versions of a state dict's modules, or of what is
                      // not looked at
        pop();
        const PickleItem item = pop();
        const PickleNode* call = node_of(item, Kind::call);
        if (!node_of(item, Kind::dict) && !(call && starts_with(call->name, "numpy."))) damaged();
        return push(item);
      }
      case kBinPersId: {
        const PickleItem identity = pop();
        const PickleNode* tuple = node_of(identity, Kind::tuple);
        if (!tuple) damaged();
        return push(Kind::persistent, {}, tuple->items);
      }
      default:
        fail(Fault::data, "its pickle uses operation ", code, " at byte ", at_ - 1, ", which no state dict needs",
             kSaveTensors);
    }
  }

  std::string_view bytes_;
  bool (*allowed_)(std::string_view);
  Pickle& pickle_;
  std::size_t at_ = 0, items_ = 0;
  Items stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleItem> memory_;
};

const PickleNode* node_of(const PickleItem& item, PickleNode::Kind kind) {
  const auto* node = std::get_if<const PickleNode*>(&item);
  return node && (*node)->kind == kind ? *node : nullptr;
}

const PickleItem* find_key(const PickleNode& dict, std::string_view key) {
  const PickleItem* found = nullptr;  // of equal keys Python keeps the last
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2)
    if (const auto* name = std::get_if<std::string_view>(&dict.items[i]); name && *name == key)
      found = &dict.items[i + 1];
  return found;
}

Pickle::Pickle(std::string_view bytes, bool (*allowed)(std::string_view)) { PickleReader(bytes, allowed, *this).run(); }

PickleWriter::PickleWriter() {
  put(kProto);
  out_ += '\2';
}

void PickleWriter::put(unsigned char code) { out_ += static_cast<char>(code); }

void PickleWriter::string(std::string_view value) {
  put(kBinUnicode);
  put_little_endian(out_, value.size(), 4);
  out_ += value;
}

void PickleWriter::integer(std::int64_t value) {
  const bool is_short = value >= 0 && value < 1 << 16;
  put(is_short ? kBinInt2 : kLong1);
  if (!is_short) out_ += '\10';  // bytes, little-endian, signed
  put_little_endian(out_, static_cast<std::uint64_t>(value), is_short ? 2 : 8);
}

void PickleWriter::no() { put(kNewFalse); }

void PickleWriter::global(std::string_view module, std::string_view name) {
  put(kGlobal);
  out_ += text(module, '\n', name, '\n');
}

void PickleWriter::ordered_dict() {
  global("collections", "OrderedDict");
  put(kEmptyTuple);
  call();
}

void PickleWriter::begin() { put(kMark); }
void PickleWriter::tuple() { put(kTuple); }
void PickleWriter::call() { put(kReduce); }
void PickleWriter::persistent() { put(kBinPersId); }
void PickleWriter::set_items() { put(kSetItems); }

std::string PickleWriter::finish() && {
  put(kStop);
  return std::move(out_);
}

}  // namespace neurim
