#include "neurim/compile/constants.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "neurim/base/sha256.h"
#include "neurim/base/text.h"
#include "neurim/base/xxh64.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

constexpr std::size_t kLongKey = 200;  // characters after which a key is told by its digest

/// What plans have made, as long as somebody holds it and the data that it was made of are there.
class Made {
 public:
  static Made& all() {
    static Made& made = *new Made;
    return made;
  }

  /// The results of that key, or none.
  Tensors find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto at = entries_.find(key);
    if (at == entries_.end() || !at->second.data_alive()) return {};
    Tensors results;
    for (const std::weak_ptr<Value>& result : at->second.results) {
      std::shared_ptr<Value> value = result.lock();
      if (!value) return {};
      results.emplace_back(std::move(value));
    }
    return results;
  }

  /// Adds the results. Those of them that are there already, as another thread has added them or a plan has let only
  /// the others go, are given instead.
  Tensors add(const std::shared_ptr<const Origin>& origin, Tensors results) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= most_) {
      std::erase_if(entries_, [](const auto& entry) { return !entry.second.alive(); });
      most_ = std::max<std::size_t>(64, 2 * entries_.size());
    }
    Entry& entry = entries_[origin->key];
    if (entry.origin && entry.data_alive())
      for (std::size_t i = 0; i < results.size(); ++i)
        if (std::shared_ptr<Value> value = entry.results[i].lock()) results[i] = Tensor(std::move(value));
    entry = {origin, {}};
    for (const Tensor& tensor : results) entry.results.push_back(tensor.shared());
    return results;
  }

 private:
  struct Entry {
    std::shared_ptr<const Origin> origin;
    std::vector<std::weak_ptr<Value>> results;

    bool data_alive() const {
      return std::none_of(origin->of.begin(), origin->of.end(), [](const auto& each) { return each.expired(); });
    }
    bool alive() const {
      return data_alive() &&
             std::any_of(results.begin(), results.end(), [](const auto& each) { return !each.expired(); });
    }
  };

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::size_t most_ = 64;  // entries after which dead ones are dropped
};

std::string digest_of(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.hex();
}

std::shared_ptr<const Origin> origin_of(const std::string& what, const Tensors& of) {
  auto origin = std::make_shared<Origin>();
  origin->key = what;
  for (const Tensor& tensor : of) {
    const Value& value = *tensor.value();
    if (value.origin) {
      origin->key += text(" (", value.origin->key, ") ", value.layout);
      origin->of.insert(origin->of.end(), value.origin->of.begin(), value.origin->of.end());
    } else {
      const auto address = reinterpret_cast<std::uintptr_t>(value.storage.get());
      origin->key += text(' ', address, ' ', value.storage->version, ' ', value.type, ' ', value.layout);
      origin->of.push_back(value.storage);
    }
  }
  if (origin->key.size() > kLongKey) origin->key = digest_of(std::as_bytes(std::span(origin->key)));
  const auto before = [](const auto& a, const auto& b) { return a.owner_before(b); };
  const auto same = [&](const auto& a, const auto& b) { return !before(a, b) && !before(b, a); };
  std::sort(origin->of.begin(), origin->of.end(), before);
  origin->of.erase(std::unique(origin->of.begin(), origin->of.end(), same), origin->of.end());
  return origin;
}

/// The bytes of a stored tensor, row-major: its own where they lie so in memory.
class Content {
 public:
  explicit Content(const Tensor& tensor) : count_(neurim::bytes(tensor.type())) {
    const Value& value = *tensor.value();
    if (value.layout.kind == Layout::plain && value.device == Device{}) {
      data_ = static_cast<const std::byte*>(value.storage->data());
    } else {
      copy_.resize(count_);
      tensor.read(copy_.data());
      data_ = copy_.data();
    }
  }
  std::span<const std::byte> bytes() const { return {data_, count_}; }
  bool bytes_are_those_of(const Tensor& other) const {
    const Content theirs(other);
    return data_ == theirs.data_ || (count_ == theirs.count_ && std::memcmp(data_, theirs.data_, count_) == 0);
  }

 private:
  std::size_t count_;
  const std::byte* data_ = nullptr;
  std::vector<std::byte> copy_;
};

}  // namespace

Tensors shared_constants(const std::string& what, const Tensors& of, const std::function<Tensors()>& make) {
  auto origin = origin_of(what, of);
  if (Tensors known = Made::all().find(origin->key); !known.empty()) return known;
  const Tensors results = make();
  for (std::size_t i = 0; i < results.size(); ++i) {
    Value& value = *results[i].value();
    value.constant = true;
    auto own = std::make_shared<Origin>(*origin);
    if (results.size() > 1) own->key += text(" result ", i);
    value.origin = std::move(own);
  }
  return Made::all().add(origin, results);
}

Tensor shared_by_content(const Tensor& tensor) {
  if (tensor.value()->origin) return tensor;
  const Content content(tensor);
  const std::string what = text("data ", tensor.type(), ' ', tensor.device(), ' ', xxh64_hex(content.bytes()));
  const Tensor shared = shared_constants(what, {}, [&] { return Tensors{snapshot(tensor)}; })[0];
  return content.bytes_are_those_of(shared) ? shared : snapshot(tensor);
}

}  // namespace neurim
