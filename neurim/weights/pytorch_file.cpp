#include "neurim/weights/pytorch_file.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "neurim/base/error.h"
#include "neurim/base/zip.h"
#include "neurim/weights/other_kind.h"
#include "neurim/weights/pickle.h"

namespace neurim {

namespace {

constexpr std::string_view kZip("PK\x03\x04", 4);
// torch.serialization's magic number in a pickle, to its end, and its version of the form before 1.6.
constexpr std::string_view kMagic("\x8a\x0al\xfc\x9c\x46\xf9\x20j\xa8P\x19.", 13);
constexpr std::int64_t kLegacyVersion = 1001;
constexpr const char* kDamaged = "; get or save the file again";
constexpr std::size_t kMostListed = 8, kLongestListed = 60;

[[noreturn]] void damaged(std::string_view what) { fail(Fault::data, what, " is damaged; get or save the file again"); }

/// Where the pickle of the magic number ends with which the form before 1.6 begins; 0 where it does not. From protocol
/// 4 on the number follows the size of a frame.
std::size_t end_of_magic(std::string_view file) {
  for (const std::size_t begin : {2, 11})
    if (file.size() > begin && file[0] == '\x80' && starts_with(file.substr(begin), kMagic))
      return begin + kMagic.size();
  return 0;
}

/// The elements of a storage class. `bytes`: of one in the file.
struct Elements {
  std::string_view storage;
  DType dtype;
  std::size_t bytes;
};
constexpr Elements kElements[] = {
    {"torch.DoubleStorage", DType::f64, 8}, {"torch.FloatStorage", DType::f32, 4},
    {"torch.HalfStorage", DType::f16, 2},   {"torch.BFloat16Storage", DType::bf16, 2},
    {"torch.LongStorage", DType::i64, 8},   {"torch.IntStorage", DType::i32, 4},
    {"torch.ShortStorage", DType::i16, 2},  {"torch.CharStorage", DType::i8, 1},
    {"torch.ByteStorage", DType::u8, 1},    {"torch.BoolStorage", DType::boolean, 1},
};

constexpr std::string_view kTensorV2 = "torch._utils._rebuild_tensor_v2", kTensor = "torch._utils._rebuild_tensor",
                           kParameter = "torch._utils._rebuild_parameter", kSize = "torch.Size";

bool allowed(std::string_view global) {
  // The rest stands beside tensors in checkpoints, and is not looked at.
  static constexpr std::string_view names[] = {
      kTensorV2, kTensor, kParameter, kSize, "torch.device", "collections.Counter", "torch.float64", "torch.float32",
      "torch.float16", "torch.bfloat16", "numpy.dtype", "numpy.ndarray", "_codecs.encode",
      // NumPy's numbers and arrays, as NumPy 1 and 2 name them.
      "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "numpy.core.multiarray._reconstruct",
      "numpy._core.multiarray._reconstruct"};
  return std::find(std::begin(names), std::end(names), global) != std::end(names) ||
         std::any_of(std::begin(kElements), std::end(kElements),
                     [&](const Elements& e) { return e.storage == global; });
}

/// Where a file keeps the elements of its tensors.
class Storages {
 public:
  virtual ~Storages() = default;
  virtual std::span<const std::byte> find(const std::string& key) = 0;
};

/// An identity that a pickle has for a storage: ('storage', class, key, location, elements, …).
struct StorageId {
  const Elements* elements = nullptr;
  std::string key;
  std::uint64_t count = 0;
};

StorageId storage_id(const PickleNode& node) {
  if (node.items.size() < 5) damaged("its description of a tensor");
  const auto* kind = std::get_if<std::string_view>(&node.items[0]);
  const auto* type = node_of(node.items[1], PickleNode::global);
  const auto* key = std::get_if<std::string_view>(&node.items[2]);
  const auto* count = std::get_if<std::int64_t>(&node.items[4]);
  if (!kind || *kind != "storage" || !type || !key || !count || *count < 0) damaged("its description of a tensor");
  if (node.items.size() > 5 && !std::holds_alternative<std::monostate>(node.items[5]))
    fail(Fault::data, "shares storages as PyTorch before 0.4 did", kSaveTensors);
  const auto* elements = std::find_if(std::begin(kElements), std::end(kElements),
                                      [&](const Elements& e) { return e.storage == type->name; });
  if (elements == std::end(kElements)) damaged("its description of a tensor");
  return {elements, std::string(*key), static_cast<std::uint64_t>(*count)};
}

/// The zip form: NAME/data.pkl, and each storage as NAME/data/KEY.
class ZipStorages : public Storages {
 public:
  explicit ZipStorages(std::span<const std::byte> file) : file_(file) {
    constexpr std::string_view pickle = "/data.pkl";
    for (ZipMember& member : zip_members(bytes_in_memory(file_))) {
      if (ends_with(member.name, pickle) && member.name.find('/') == member.name.size() - pickle.size())
        folder_ = member.name.substr(0, member.name.size() - pickle.size() + 1);
      std::string name = member.name;
      members_.emplace(std::move(name), std::move(member));
    }
    std::vector<std::string> names;
    for (const auto& [name, member] : members_) names.push_back(name);
    if (const std::string kind = other_kind_of_zip(names); !kind.empty()) fail(Fault::data, kind);
    if (folder_.empty())
      fail(Fault::data, "is a zip archive without a data.pkl, so it is not what torch.save writes", kSaveTensors);
    const std::string order = folder_ + "byteorder";
    if (members_.count(order) && as_text(data(order)) != "little")
      fail(Fault::data, "was written on a big-endian machine; save it on a little-endian one");
  }
  std::string_view pickle() { return as_text(data(folder_ + "data.pkl")); }
  std::span<const std::byte> find(const std::string& key) override { return data(folder_ + "data/" + key); }

 private:
  std::span<const std::byte> data(const std::string& name) {
    const auto found = members_.find(name);
    if (found == members_.end()) fail(Fault::data, "has no member ", name, kDamaged);
    const ZipMember& member = found->second;
    if (member.method != ZipMember::stored)
      fail(Fault::data, "its member ", name, " is compressed, which torch.save never does", kSaveTensors);
    const std::span<const std::byte> bytes = file_.subspan(zip_data(bytes_in_memory(file_), member), member.size);
    if (checked_.insert(name).second) {
      // Many members over the same bytes would take as many times as long.
      checked_bytes_ += bytes.size();
      if (checked_bytes_ > file_.size()) damaged("its zip directory");
      check_zip_sum(member, bytes);
    }
    return bytes;
  }

  std::span<const std::byte> file_;
  std::string folder_;  // with the slash
  std::map<std::string, ZipMember> members_;
  std::set<std::string> checked_;
  std::size_t checked_bytes_ = 0;
};

/// The form before 1.6: pickles of a magic number, the version, the machine, the object and the storages'
/// keys; then each storage's count of elements and its elements.
class LegacyStorages : public Storages {
 public:
  explicit LegacyStorages(std::span<const std::byte> file) {
    std::string_view rest = as_text(file).substr(end_of_magic(as_text(file)));
    const Pickle version(rest, allowed);
    if (version.root() != PickleItem(kLegacyVersion)) damaged("its version");
    rest.remove_prefix(version.size());
    const Pickle machine(rest, allowed);
    const PickleNode* facts = node_of(machine.root(), PickleNode::dict);
    const PickleItem* little_endian = facts ? find_key(*facts, "little_endian") : nullptr;
    if (!little_endian || *little_endian != PickleItem(true))
      fail(Fault::data, "was written on a big-endian machine, or is damaged; save it again");
    rest.remove_prefix(machine.size());
    object_.emplace(rest, allowed);
    rest.remove_prefix(object_->size());
    std::map<std::string_view, StorageId> known;
    for (const PickleNode& node : object_->nodes())
      if (node.kind == PickleNode::persistent) {
        StorageId id = storage_id(node);
        known.emplace(std::get<std::string_view>(node.items[2]), std::move(id));
      }
    const Pickle keys(rest, allowed);
    rest.remove_prefix(keys.size());
    const PickleNode* list = node_of(keys.root(), PickleNode::list);
    if (!list) damaged("its list of storages");
    for (const PickleItem& item : list->items) {
      const auto* key = std::get_if<std::string_view>(&item);
      const auto id = key ? known.find(*key) : known.end();
      if (id == known.end()) damaged("its list of storages");
      const std::size_t bytes = id->second.elements->bytes;
      const std::uint64_t count = rest.size() < 8 ? 0 : little(rest, 0, 8);
      if (rest.size() < 8 || count > (rest.size() - 8) / bytes)
        fail(Fault::data, "ends within storage ", id->second.key, kDamaged);
      storages_[id->second.key] = std::as_bytes(std::span(rest.substr(8, count * bytes)));
      rest.remove_prefix(8 + count * bytes);
    }
  }
  const Pickle& object() const { return *object_; }
  std::span<const std::byte> find(const std::string& key) override {
    const auto found = storages_.find(key);
    if (found == storages_.end()) fail(Fault::data, "has no storage ", key, kDamaged);
    return found->second;
  }

 private:
  std::optional<Pickle> object_;
  std::map<std::string, std::span<const std::byte>> storages_;
};

/// A tensor where it lies.
struct View {
  Type type;
  const std::byte* first;
  std::size_t bytes;  // of an element in the file
  std::vector<std::int64_t> strides;
  bool negated = false;  // floats whose signs are the others

  void read(std::byte* host) const {
    const auto size = static_cast<std::size_t>(copy(0, first, host) - host);
    if (negated)
      for (std::size_t last = bytes - 1; last < size; last += bytes) host[last] ^= std::byte{0x80};
  }

 private:
  /// The axes from `axis` on, at `from`; gives the end of what it wrote.
  std::byte* copy(int axis, const std::byte* from, std::byte* to) const {
    std::int64_t inner = 1;  // elements that lie densely from `axis` on
    int dense = type.shape.rank();
    while (dense > axis && (type.shape[dense - 1] == 1 || strides[dense - 1] == inner)) inner *= type.shape[--dense];
    if (dense == axis) {
      const std::size_t size = static_cast<std::size_t>(inner) * bytes;
      if (size > 0) std::memcpy(to, from, size);
      return to + size;
    }
    const std::int64_t step = strides[axis] * static_cast<std::int64_t>(bytes);
    for (std::int64_t i = 0; i < type.shape[axis]; ++i) to = copy(axis + 1, from + i * step, to);
    return to;
  }
};

std::optional<std::vector<std::int64_t>> integers(PickleItem item) {
  if (const PickleNode* size = node_of(item, PickleNode::call); size && size->name == kSize && !size->items.empty())
    item = size->items[0];
  const PickleNode* tuple = node_of(item, PickleNode::tuple);
  if (!tuple) return {};
  if (tuple->items.size() > Shape::kMaxRank)  // before a long one is copied, which many tensors may share
    fail(Fault::data, "has ", tuple->items.size(), " axes, at most ", Shape::kMaxRank, " are supported");
  std::vector<std::int64_t> numbers;
  for (const PickleItem& each : tuple->items) {
    const auto* number = std::get_if<std::int64_t>(&each);
    if (!number || *number < 0) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

/// The call that rebuilds a tensor, for a tensor or a Parameter; else null.
const PickleNode* tensor_call(const PickleItem& item) {
  const PickleNode* call = node_of(item, PickleNode::call);
  if (call && call->name == kParameter && !call->items.empty()) call = node_of(call->items[0], PickleNode::call);
  return call && (call->name == kTensorV2 || call->name == kTensor) ? call : nullptr;
}

/// Names for a message: few, short and printable.
std::string listed(const std::vector<std::string_view>& names) {
  std::vector<std::string> shown;
  for (const std::string_view name : names) {
    if (shown.size() == kMostListed) {
      shown.push_back("…");
      break;
    }
    shown.emplace_back(name.substr(0, kLongestListed));
    std::replace_if(shown.back().begin(), shown.back().end(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  }
  return join(shown, ", ");
}

/// Whether the tensor is the negative of what its storage holds: {"neg": True}, the last argument of
/// _rebuild_tensor_v2.
bool is_negated(const PickleNode& call, DType dtype) {
  if (call.items.size() < 7 || std::holds_alternative<std::monostate>(call.items[6])) return false;
  const PickleNode* facts = node_of(call.items[6], PickleNode::dict);
  if (!facts || call.items.size() > 7) damaged("its description of a tensor");
  bool negated = false;
  for (std::size_t i = 0; i + 1 < facts->items.size(); i += 2) {
    const auto* fact = std::get_if<std::string_view>(&facts->items[i]);
    if (facts->items[i + 1] == PickleItem(false)) continue;
    if (!fact || *fact != "neg" || facts->items[i + 1] != PickleItem(true) || !is_floating(dtype))
      fail(Fault::data, "is a view of PyTorch's (", fact ? listed({*fact}) : "?",
           ") that is not read here; save it with .clone()");
    negated = true;
  }
  return negated;
}

View view_of(const PickleNode& call, Storages& storages, std::size_t file_size) {
  if (call.items.size() < 4) damaged("its description of a tensor");
  const PickleNode* identity = node_of(call.items[0], PickleNode::persistent);
  const auto* offset = std::get_if<std::int64_t>(&call.items[1]);
  const auto sizes = integers(call.items[2]);
  auto strides = integers(call.items[3]);
  if (!identity || !offset || *offset < 0 || !sizes || !strides || sizes->size() != strides->size())
    damaged("its description of a tensor");
  const StorageId id = storage_id(*identity);
  const std::size_t bytes = id.elements->bytes;
  const std::span<const std::byte> storage = storages.find(id.key);
  if (storage.size() / bytes != id.count || storage.size() % bytes != 0)
    fail(Fault::data, "its storage ", id.key, " has ", storage.size(), " bytes where ", id.count, " elements of ",
         bytes, " were saved", kDamaged);

  const Shape shape{std::span(*sizes)};
  bool too_large = false;
  std::int64_t elements = 1, last = *offset;  // the largest index in the storage
  const bool empty = std::find(sizes->begin(), sizes->end(), 0) != sizes->end();
  for (std::size_t i = 0; i < sizes->size(); ++i) {
    if (empty || (*sizes)[i] == 1) (*strides)[i] = 0;  // is of no account and may be anything
    std::int64_t reach = 0;
    const std::int64_t size = std::max<std::int64_t>((*sizes)[i], 1);
    too_large = too_large || __builtin_mul_overflow(elements, size, &elements) ||
                __builtin_mul_overflow(size - 1, (*strides)[i], &reach) || __builtin_add_overflow(last, reach, &last);
  }
  if (too_large || static_cast<std::uint64_t>(elements) > file_size / bytes)
    fail(Fault::data, "is of shape ", shape, ", larger than the file; save it with .contiguous()");
  if (!empty && static_cast<std::uint64_t>(last) >= id.count)
    fail(Fault::data, "reaches to element ", last, " of a storage of ", id.count, kDamaged);
  return {{id.elements->dtype, shape},
          storage.data() + (empty ? 0 : static_cast<std::size_t>(*offset) * bytes),
          bytes,
          *strides,
          is_negated(call, id.elements->dtype)};
}

bool has_tensors(const PickleNode& dict) {
  for (std::size_t i = 1; i < dict.items.size(); i += 2)
    if (tensor_call(dict.items[i])) return true;
  return false;
}

/// What programs keep the weights of a model under; those that are averaged over the training go first.
constexpr std::string_view kUsualKeys[] = {"state_dict_ema",
                                           "model_ema",
                                           "ema_state_dict",
                                           "model_ema_state_dict",
                                           "ema_model",
                                           "ema",
                                           "params_ema",
                                           "state_dict",
                                           "model_state_dict",
                                           "model_state",
                                           "model",
                                           "net_state_dict",
                                           "net",
                                           "network",
                                           "module",
                                           "weights",
                                           "params"};

/// The dict of tensors that it is, or has under a usual key; or null.
const PickleNode* tensors_in(const PickleNode& dict) {
  if (has_tensors(dict)) return &dict;
  for (const std::string_view usual : kUsualKeys) {
    const PickleItem* item = find_key(dict, usual);
    const PickleNode* inner = item ? node_of(*item, PickleNode::dict) : nullptr;
    if (inner && has_tensors(*inner)) return inner;
  }
  return nullptr;
}

/// Whether a name is of a tensor in a layer, as those of a state dict are but for nets of one layer.
bool is_in_layer(std::string_view name) { return name.find('.') != name.npos; }

/// Whether a tensor in the dict has such a name.
bool has_layers(const PickleNode& dict) {
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2)
    if (const auto* key = std::get_if<std::string_view>(&dict.items[i]);
        key && is_in_layer(*key) && tensor_call(dict.items[i + 1]))
      return true;
  return false;
}

/// The state dict in what was saved: under a key, or that itself. The usual keys go first: a number beside the state
/// dict may be a tensor too.
const PickleNode& choose(const PickleItem& root, std::vector<std::string>& notes) {
  const PickleNode* saved = node_of(root, PickleNode::dict);
  if (!saved) fail(Fault::data, "holds no dict of tensors", kSaveTensors);
  std::vector<std::string_view> keys;
  std::map<std::string_view, const PickleNode*> leading;
  std::map<const PickleNode*, const PickleNode*> searched;  // many keys may hold one dict
  for (std::size_t i = 0; i + 1 < saved->items.size(); i += 2)
    if (const auto* key = std::get_if<std::string_view>(&saved->items[i])) {
      keys.push_back(*key);
      const PickleNode* inner = node_of(saved->items[i + 1], PickleNode::dict);
      if (!inner) continue;
      const auto [found, is_new] = searched.emplace(inner, nullptr);
      if (is_new) found->second = tensors_in(*inner);
      if (found->second) leading[*key] = found->second;
    }
  std::optional<std::string_view> chosen;
  for (const std::string_view usual : kUsualKeys)
    if (!chosen && leading.count(usual)) chosen = usual;
  const bool is_metric = leading.size() == 1 && !has_layers(*saved) &&
                         has_layers(*leading.begin()->second);  // what is beside the dict
  if (!chosen && !is_metric && has_tensors(*saved)) return *saved;
  if (!chosen && leading.size() == 1) chosen = leading.begin()->first;
  if (!chosen) {
    if (!leading.empty()) {
      keys.clear();
      for (const auto& [key, inner] : leading) keys.push_back(key);
    }
    fail(Fault::data, leading.empty() ? "holds no tensors under its keys (" : "holds several state dicts (",
         listed(keys), ")", kSaveTensors);
  }
  std::erase(keys, *chosen);
  notes.push_back(text("takes '", listed({*chosen}), "'", keys.empty() ? "" : ", not ", listed(keys)));
  return *leading.at(*chosen);
}

void fill(StateDict& to, const Pickle& pickle, Storages& storages, const std::shared_ptr<const MappedFile>& file) {
  const PickleNode& dict = choose(pickle.root(), to.notes);
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const auto* name = std::get_if<std::string_view>(&dict.items[i]);
    const PickleNode* call = tensor_call(dict.items[i + 1]);
    if (!name || !call) continue;  // what is kept beside tensors
    try {
      const View view = view_of(*call, storages, file->bytes().size());
      to.entries[std::string(*name)] = {view.type, [view, file](std::byte* host) { view.read(host); }};
    } catch (const Error& error) {
      fail(error.fault(), "'", listed({*name}), "': ", error.what());
    }
  }
}

}  // namespace

bool is_pytorch_file(std::span<const std::byte> file) {
  return starts_with(as_text(file), kZip) || end_of_magic(as_text(file)) > 0;
}

StateDict read_pytorch_file(const fs::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  StateDict dict{.path = path};
  try {
    if (!is_pytorch_file(file->bytes())) {
      const std::string kind = other_kind(file->bytes());
      fail(Fault::data,
           kind.empty() ? "does not begin as what torch.save writes; is it cut off, or of another program?" : kind);
    }
    if (starts_with(as_text(file->bytes()), kZip)) {
      ZipStorages storages(file->bytes());
      const Pickle pickle(storages.pickle(), allowed);
      fill(dict, pickle, storages, file);
    } else {
      LegacyStorages storages(file->bytes());
      fill(dict, storages.object(), storages, file);
    }
  } catch (const Error& error) {
    fail(error.fault(), path.string(), ": ", error.what());
  }
  return dict;
}

namespace {

const Elements& elements_of(const Tensor& tensor, const std::string& name) {
  const auto* found = std::find_if(std::begin(kElements), std::end(kElements),
                                   [&](const Elements& each) { return each.dtype == tensor.dtype(); });
  require(found != std::end(kElements), name, " is ", tensor.type(), ", which no storage of PyTorch holds");
  return *found;
}

/// torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks)
void write_tensor(PickleWriter& pickle, const std::string& name, const Tensor& tensor, std::size_t number) {
  const std::string_view storage = elements_of(tensor, name).storage;
  std::vector<std::int64_t> sizes(tensor.shape().begin(), tensor.shape().end()), strides(sizes.size(), 1);
  for (std::size_t axis = sizes.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * std::max<std::int64_t>(sizes[axis], 1);
  pickle.string(name);
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.begin();
  pickle.begin();
  pickle.string("storage");
  pickle.global("torch", storage.substr(storage.find('.') + 1));
  pickle.string(text(number));
  pickle.string("cpu");
  pickle.integer(tensor.numel());
  pickle.tuple();
  pickle.persistent();
  pickle.integer(0);
  for (const std::vector<std::int64_t>* list : {&sizes, &strides}) {
    pickle.begin();
    for (const std::int64_t value : *list) pickle.integer(value);
    pickle.tuple();
  }
  pickle.no();
  pickle.ordered_dict();
  pickle.tuple();
  pickle.call();
}

}  // namespace

void write_pytorch_file(const fs::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors) {
  constexpr std::size_t kAlignment = 64;
  PickleWriter pickle;
  pickle.ordered_dict();
  pickle.begin();
  for (std::size_t i = 0; i < tensors.size(); ++i) write_tensor(pickle, tensors[i].first, tensors[i].second, i);
  pickle.set_items();
  ZipWriter archive;
  archive.add("archive/data.pkl", std::move(pickle).finish(), kAlignment);
  archive.add("archive/byteorder", "little", kAlignment);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<std::byte> data(bytes(tensors[i].second.type()));
    tensors[i].second.read(data.data());
    archive.add(text("archive/data/", i), as_text(data), kAlignment);
  }
  archive.add("archive/version", "3\n", kAlignment);
  write_file(path, std::move(archive).finish());
}

}  // namespace neurim
