// Python's pickles as plain data: the part of protocols 2 to 5 that state dicts are written in
// (docs.python.org/3/library/pickletools.html). A pickle is a program that calls whatever it names; here
// nothing is called: names are compared with a list, and calls become nodes to look at.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace neurim {

struct PickleNode;
/// None, or a value of Python's bool, int (of 64 bits), float or str, or one of the below. Strings lie in the
/// pickle's bytes.
using PickleItem = std::variant<std::monostate, bool, std::int64_t, double, std::string_view, const PickleNode*>;

struct PickleNode {
  enum Kind : std::uint8_t {
    tuple,
    list,
    dict,        ///< also collections.OrderedDict; items are key, value, key, value, …
    global,      ///< "module.name"
    call,        ///< of the global `name`; items are its arguments
    persistent,  ///< what the writer keeps outside; items are its identity
  };
  Kind kind;
  std::string name = {};
  std::vector<PickleItem> items = {};
};

/// What is to be done where a file holds anything else.
inline constexpr const char*
    kSaveTensors = "; in PyTorch, save the tensors alone: torch.save(model.state_dict(), FILE)";

/// The node of that kind that the item is, or null.
const PickleNode* node_of(const PickleItem& item, PickleNode::Kind kind);
/// The value of a dict under the key, or null.
const PickleItem* find_key(const PickleNode& dict, std::string_view key);

/// A pickle and what it refers to.
class Pickle {
 public:
  /// Reads the first pickle of `bytes`, which outlive this. Throws Error(data), without the file's name,
  /// where it is damaged, makes more than 2 million values, or uses an operation or a global that is not a
  /// state dict's; `allowed` says which globals are. Values may lie in each other to any depth, also in
  /// themselves: whoever walks them bounds the walk.
  Pickle(std::string_view bytes, bool (*allowed)(std::string_view global));
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleItem& root() const { return root_; }
  std::size_t size() const { return size_; }  ///< bytes of the pickle
  const std::deque<PickleNode>& nodes() const { return nodes_; }

 private:
  friend class PickleReader;
  std::deque<PickleNode> nodes_;
  PickleItem root_;
  std::size_t size_ = 0;
};

/// A pickle of protocol 2 that is written: each call does a step of the machine that reads it.
class PickleWriter {
 public:
  PickleWriter();                       ///< begins it
  void string(std::string_view value);  ///< pushes a value, as the next four do
  void integer(std::int64_t value);     ///< of any size
  void no();                            ///< False
  void global(std::string_view module, std::string_view name);
  void ordered_dict();      ///< an empty collections.OrderedDict
  void begin();             ///< marks where a tuple or items begin
  void tuple();             ///< of all from the last mark on
  void call();              ///< of the global below with the tuple on top
  void persistent();        ///< what the reader keeps outside, by the identity on top
  void set_items();         ///< names and values from the last mark on go into the dict below
  std::string finish() &&;  ///< the bytes

 private:
  void put(unsigned char code);

  std::string out_;
};

}  // namespace neurim
