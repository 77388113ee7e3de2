#include "neurim/graph/op.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "neurim/base/error.h"

namespace neurim {

namespace {

std::map<std::string, OpFactory, std::less<>>& factories() {
  static auto& all = *new std::map<std::string, OpFactory, std::less<>>;
  return all;
}

/// Prints attributes as "name=value", space between.
class Printer final : public Fields {
 public:
  std::string out;
  Fields& operator()(std::string_view name, std::int64_t& value) override { return print(name, text(value)); }
  Fields& operator()(std::string_view name, double& value) override { return print(name, text(value)); }
  Fields& operator()(std::string_view name, bool& value) override { return print(name, text(value)); }
  Fields& operator()(std::string_view name, std::string& value) override { return print(name, quoted_word(value)); }
  Fields& operator()(std::string_view name, DType& value) override { return print(name, text(value)); }
  Fields& operator()(std::string_view name, std::vector<std::int64_t>& value) override { return list(name, value); }
  Fields& operator()(std::string_view name, std::vector<double>& value) override { return list(name, value); }
  Fields& operator()(std::string_view name, Dim& value) override { return print(name, text(value)); }
  Fields& operator()(std::string_view name, std::vector<Dim>& value) override { return list(name, value); }

 private:
  Fields& print(std::string_view name, std::string_view value) {
    out += text(out.empty() ? "" : " ", name, '=', value);
    return *this;
  }
  template <class T>
  Fields& list(std::string_view name, const std::vector<T>& values) {
    std::vector<std::string> parts;
    for (const T& value : values) parts.push_back(text(value));
    return print(name, text('[', join(parts, ","), ']'));
  }
};

/// Fills attributes from such a text.
class AttributeReader final : public Fields {
 public:
  AttributeReader(std::string_view op, std::string_view text, const Dim::Symbols& symbols)
      : op_(op), symbols_(symbols) {
    if (text.empty()) return;
    if (text.size() < 2 || text.front() != '{' || text.back() != '}') bad(text);
    text = text.substr(1, text.size() - 2);
    while (!text.empty()) {
      const std::size_t equals = text.find('=');
      if (equals == std::string_view::npos) bad(text);
      const std::string_view name = text.substr(0, equals);
      text.remove_prefix(equals + 1);
      const std::size_t end = word_end(text);
      if (!given_.emplace(name, text.substr(0, end)).second) bad(name);
      text.remove_prefix(std::min(text.size(), end + 1));
    }
  }

  void check_all_read() const {
    for (const auto& [name, value] : given_)
      require(std::find(read_.begin(), read_.end(), name) != read_.end(), op_, ": there is no attribute '", name, "'");
  }

  Fields& operator()(std::string_view name, std::int64_t& value) override { return take(name, value); }
  Fields& operator()(std::string_view name, double& value) override { return take(name, value); }
  Fields& operator()(std::string_view name, bool& value) override { return take(name, value); }
  Fields& operator()(std::string_view name, std::string& value) override { return take(name, value); }
  Fields& operator()(std::string_view name, DType& value) override { return take(name, value); }
  Fields& operator()(std::string_view name, Dim& value) override { return take(name, value); }
  Fields& operator()(std::string_view name, std::vector<std::int64_t>& value) override { return list(name, value); }
  Fields& operator()(std::string_view name, std::vector<double>& value) override { return list(name, value); }
  Fields& operator()(std::string_view name, std::vector<Dim>& value) override { return list(name, value); }

 private:
  [[noreturn]] void bad(std::string_view what) const {
    fail(Fault::usage, op_, ": '", what, "' is no list of attributes");
  }

  const std::string_view* find(std::string_view name) {
    const auto at = given_.find(name);
    if (at == given_.end()) return nullptr;
    read_.emplace_back(name);
    return &at->second;
  }

  template <class T>
  Fields& take(std::string_view name, T& value) {
    if (const std::string_view* word = find(name)) read(name, *word, value);
    return *this;
  }
  template <class T>
  Fields& list(std::string_view name, std::vector<T>& values) {
    const std::string_view* word = find(name);
    if (!word) return *this;
    if (word->size() < 2 || word->front() != '[' || word->back() != ']') bad(*word);
    values.clear();
    const std::string_view inner = word->substr(1, word->size() - 2);
    if (inner.empty()) return *this;
    for (const std::string& part : split(inner, ',')) read(name, part, values.emplace_back());
    return *this;
  }

  template <class T>
  void read(std::string_view name, std::string_view word, T& value) const {
    const char* const last = word.data() + word.size();
    bool fits = true;
    if constexpr (std::is_same_v<T, Dim>) {
      value = Dim::parse(word, symbols_);
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = unquoted(word);
    } else if constexpr (std::is_same_v<T, bool>) {
      fits = word == "true" || word == "false";
      value = word == "true";
    } else if constexpr (std::is_same_v<T, DType>) {
      const auto named = dtype_named(word);
      fits = named.has_value();
      value = named.value_or(DType::f32);
    } else {
      const auto [end, error] = std::from_chars(word.data(), last, value);
      fits = end == last && error == std::errc();
    }
    require(fits, op_, ": ", name, " cannot be '", word, "'");
  }

  const std::string_view op_;
  const Dim::Symbols& symbols_;
  std::map<std::string_view, std::string_view> given_;
  std::vector<std::string> read_;
};

}  // namespace

Fields& Fields::operator()(std::string_view name, Dim& value) {
  std::int64_t number = value;
  (*this)(name, number);
  value = number;
  return *this;
}

Fields& Fields::operator()(std::string_view name, std::vector<Dim>& value) {
  std::vector<std::int64_t> numbers(value.begin(), value.end());
  (*this)(name, numbers);
  value.assign(numbers.begin(), numbers.end());
  return *this;
}

void fields(const Op& op, Fields& reader) { const_cast<Op&>(op).fields(reader); }

std::string formula_name(const Op& op) {
  const std::string_view variant = op.formula().variant;
  return variant.empty() ? std::string(op.name()) : text(op.name(), ' ', variant);
}

std::string attributes(const std::function<void(Fields&)>& visit) {
  Printer printer;
  visit(printer);
  return printer.out.empty() ? "" : '{' + printer.out + '}';
}

std::string attributes(const Op& op) {
  return attributes([&](Fields& printer) { fields(op, printer); });
}

std::string data_fault_of(const Op& op, std::span<const Tensor> in) {
  const std::string found = op.data_fault(in);
  return text(op.name(), ": ", found.empty() ? "an index or a label is outside its range" : found);
}

void define(OpFactory factory) {
  const std::string name(factory()->name());
  require(factories().emplace(name, factory).second, "there is an op '", name, "' already; give yours another name");
}

std::shared_ptr<Op> make_op(std::string_view name) {
  require(!factories().empty(), "no ops are registered; call neurim::initialize() first");
  const auto at = factories().find(name);
  NEURIM_ASSERT(at != factories().end());
  return at->second();
}

std::shared_ptr<Op> make_op(std::string_view name, std::string_view attributes, const Dim::Symbols& symbols) {
  require(factories().find(name) != factories().end(), "there is no op '", name, "'");
  std::shared_ptr<Op> op = make_op(name);
  AttributeReader reader(name, attributes, symbols);
  op->fields(reader);
  reader.check_all_read();
  return op;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories()) names.push_back(name);
  return names;
}

}  // namespace neurim
