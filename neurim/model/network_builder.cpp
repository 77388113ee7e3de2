#include "neurim/model/network_builder.h"

#include <algorithm>
#include <cctype>

#include "neurim/graph/trace.h"
#include "neurim/model/zoo.h"
#include "neurim/nn/named_layers.h"
#include "neurim/ops/add.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/mul.h"

namespace neurim {

namespace {

using Names = std::vector<std::string>;

constexpr std::int64_t kMostElements = std::int64_t{1} << 36;  // of a result for one image
constexpr std::int64_t kMostLayers = 10'000;
constexpr int kMostDepth = 16;  // of blocks in blocks

const Names kKinds{"layer", "layers", "model"};
const Names kWords{"from", "layer", "layers", "model", "name", "repeat"};  // of an entry; others are options
const Names kJoins{"Add", "Concat", "Mul"};

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Runs `body`; its errors name the input of a layer where they do not yet.
template <class Body>
auto with_input(const Shape& input, Body body) {
  try {
    return body();
  } catch (const Error& error) {
    const std::string shape = text(input);
    if (std::string_view(error.what()).find(shape) != std::string_view::npos) throw;
    throw Error(error.fault(), text(error.what(), " (its input is ", shape, ')'));
  }
}

const Toml::Table& table_of(const Toml& value, std::string_view what) {
  const auto* table = value.as<Toml::Table>();
  require(table, what, " is ", value, "; it is a table");
  return *table;
}

const Toml::Array& list_of(const Toml& value) {
  const auto* list = value.as<Toml::Array>();
  require(list && !list->empty(), "layers is ", list ? "a list without items" : text(value),
          "; it is a list of tables such as { layer = \"ReLU\" }");
  return *list;
}

/// The word that the table has under a key, for messages; "" for none.
std::string shown(const Toml::Table* table, std::string_view key) {
  const Toml* value = table ? find(*table, key) : nullptr;
  const auto* word = value ? value->as<std::string>() : nullptr;
  return word ? *word : "";
}

std::string word_of(std::string_view what, const Toml& value) {
  const auto* word = value.as<std::string>();
  require(word, what, " is ", value, "; it is a name");
  return *word;
}

/// A name of parameters in which no dot separates anything, and no number stands for a place in the list.
std::string checked_name(const Toml& value) {
  const std::string name = word_of("name", value);
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  require(
      !name.empty() && std::all_of(name.begin(), name.end(), fits) && !std::all_of(name.begin(), name.end(), is_digit),
      "name is ", value, "; it is made of letters, digits, '_' and '-', and not of digits alone");
  return name;
}

/// What comes after may compute with its sizes.
Tensor checked(const Tensor& y) {
  require(y.numel() <= kMostElements, "gives ", y.shape(), ", more than ", kMostElements, " values for one image");
  return y;
}

Tensor add_equal(const Tensors& x) {
  Tensor sum = x[0];
  for (std::size_t i = 1; i < x.size(); ++i) {
    require(x[i].shape() == sum.shape(), "adds ", sum.shape(), " and ", x[i].shape(),
            ", which have to be equal; bring one to the shape of the other, as a Conv2d of kernel 1 does by "
            "out and stride");
    sum = sum + x[i];
  }
  return sum;
}

Tensor multiply(const Tensors& x) {
  Tensor product = x[0];
  for (std::size_t i = 1; i < x.size(); ++i) product = product * x[i];
  return product;
}

/// A network of the zoo with drawn weights, whose tensors take the names of the whole one.
nn::Layer zoo_network(const std::string& name, const Type& x, OptionReader& options) {
  require(x.shape.rank() == 4, "takes x(N,C,H,W), got ", x.shape);
  const bool square = !x.shape[2].symbolic() && x.shape[2] == x.shape[3];
  ModelOptions wanted{.in_chans = x.shape[1], .image_size = square ? std::int64_t{x.shape[2]} : 0, .seed = {}};
  options("num_classes", wanted.num_classes);
  options.check_all_known();
  Model model = create_model(name, wanted);
  for (const Parameter& parameter : named_parameters(model)) parameter.tensor.set_name({});
  return model.net;
}

}  // namespace

NetworkBuilder::NetworkBuilder(const Toml::Table& document, const std::string& where, std::int64_t classes)
    : where_(where) {
  globals_["classes"].value = classes;
  globals_.merge(arguments(document));
  if (const Toml* blocks = find(document, "blocks"))
    blocks_ = located(where_, *blocks, "", [&] { return &table_of(*blocks, "blocks"); });
}

Toml::Table NetworkBuilder::arguments(const Toml::Table& holder) const {
  Toml::Table all;
  const Toml* args = find(holder, "args");
  if (!args) return all;
  return located(where_, *args, "args: ", [&] {
    for (const auto& [name, value] : table_of(*args, "args")) {
      require(!contains(kWords, name) && name != "in" && name != "classes", "'", name,
              "' has a meaning already; choose ", "another name");
      all[name] = evaluated(value, globals_);
    }
    return all;
  });
}

nn::Network NetworkBuilder::network(const Toml& layers, Tensor& x, Toml::Table scope, std::string path, int depth) {
  require(depth <= kMostDepth, "blocks stand more than ", kMostDepth, " deep in each other; does one use itself?");
  if (x.rank() >= 2) scope["in"].value = x.size(1);
  List list{scope, std::move(path), depth, {x}, {{"input", 0}}, {}};
  for (const Toml& given : list_of(layers)) add(given, list);
  x = list.results.back();
  return std::move(list.network);
}

/// Adds what an entry says to the list, as its next result.
void NetworkBuilder::add(const Toml& given, List& list) {
  const std::string place = text(list.results.size() - 1);
  const auto* table = given.as<Toml::Table>();
  const std::string said = shown(table, "name"), kind = shown(table, "layer") + shown(table, "model");
  const std::string what = text("layer ", list.path, said.empty() ? place : said,
                                kind.empty() ? "" : text(" (", kind, ')'), ": ");
  located(where_, given, what, [&] {
    const Toml::Table& words = table_of(given, "this");
    const Toml* named = find(words, "name");
    const std::string name = named ? checked_name(*named) : place;
    require(!list.numbers.contains(name), "there is a layer of this name before; names differ within a list");
    Entry entry = entry_of(words, name, list);
    Tensor y = list.results[entry.from[0]];
    const Toml* repeat = find(words, "repeat");
    if (nn::Join joined = join_of(entry)) {
      require(!repeat && entry.from.size() > 1, "this takes two results or more, from = [\"name\", -1], and no repeat");
      count_layer();
      Tensors in;
      for (const std::size_t from : entry.from) in.push_back(list.results[from]);
      y = checked(joined(in));
      list.network.join(std::move(joined), entry.from);
    } else {
      require(entry.from.size() == 1, "this takes one result, and from names ", entry.from.size(), "; ",
              join(kJoins, ", "), " take several");
      if (!repeat) {
        list.network.add(name, layer(entry, y), entry.from[0]);
      } else {
        const std::int64_t count = whole_number("repeat", evaluated(*repeat, list.scope), 1, kMostLayers);
        const std::string path = entry.path;
        nn::Network row;
        for (std::int64_t i = 0; i < count; ++i) {
          entry.path = text(path, '.', i);
          row.add(text(i), layer(entry, y), static_cast<std::size_t>(i));
        }
        list.network.add(name, std::move(row), entry.from[0]);
      }
    }
    list.results.push_back(y);
    if (named) list.numbers.emplace(name, list.results.size() - 1);
  });
}

NetworkBuilder::Entry NetworkBuilder::entry_of(const Toml::Table& given, const std::string& name,
                                               const List& list) const {
  Entry entry{.path = list.path + name, .scope = &list.scope, .depth = list.depth};
  for (const auto& [word, value] : given) {
    if (contains(kKinds, word)) {
      require(entry.kind.empty(), "this has ", entry.kind, " and ", word, "; give one of them");
      entry.kind = word;
      if (word == "layers")
        entry.layers = &value;
      else
        entry.what = word_of(word, evaluated(value, list.scope));
    } else if (word == "from") {
      const Toml from = evaluated(value, list.scope);
      if (const auto* several = from.as<Toml::Array>())
        for (const Toml& each : *several) entry.from.push_back(result_named(each, list));
      else
        entry.from.push_back(result_named(from, list));
      require(!entry.from.empty(), "from names nothing; leave it out for the layer before");
    } else if (!contains(kWords, word)) {
      entry.options[word] = evaluated(value, list.scope);
    }
  }
  require(!entry.kind.empty(), "this names no layer; give its kind: { layer = \"ReLU\" }");
  if (entry.from.empty()) entry.from.push_back(list.results.size() - 1);
  return entry;
}

/// By name, or by number: 0 is the first layer of the list, -1 the one before.
std::size_t NetworkBuilder::result_named(const Toml& from, const List& list) const {
  const auto count = static_cast<std::int64_t>(list.results.size());
  if (const auto* number = from.as<std::int64_t>()) {
    require(*number >= -count && *number < count - 1, "from is ", *number, ", and there are ", count - 1,
            " layers before: 0 is the first of them, -1 the last");
    return *number < 0 ? count + *number : *number + 1;
  }
  const std::string name = word_of("from", from);
  const auto found = list.numbers.find(name);
  if (found != list.numbers.end()) return found->second;
  Names known;
  for (const auto& [each, number] : list.numbers) known.push_back(each);
  fail(Fault::usage, "from: there is no '", name, "' before", suggestion(name, known));
}

/// What an entry makes of several results; nothing for other entries.
nn::Join NetworkBuilder::join_of(const Entry& entry) const {
  if (entry.kind != "layer" || !contains(kJoins, entry.what) || block_named(entry.what) || nn::make_layer(entry.what))
    return {};
  std::int64_t axis = 1;
  OptionReader options(entry.options);
  if (entry.what == "Concat") options("axis", axis);
  options.check_all_known();
  if (entry.what == "Add") return add_equal;
  if (entry.what == "Mul") return multiply;
  return [axis](const Tensors& x) { return concat(x, axis); };
}

/// Blocks of blocks make many of few lines.
void NetworkBuilder::count_layer() {
  require(++layers_ <= kMostLayers, "the network has more than ", kMostLayers, " layers");
}

/// The layer of an entry for an input x, which becomes its result.
nn::Layer NetworkBuilder::layer(const Entry& entry, Tensor& x) {
  count_layer();
  if (entry.kind == "layers") {
    check_known(where_, text("layer ", entry.path, ": "), entry.options, {});
    return network(*entry.layers, x, *entry.scope, entry.path + '.', entry.depth + 1);
  }
  const Toml* definition = entry.kind == "layer" ? block_named(entry.what) : nullptr;
  if (definition) return block(*definition, entry, x);
  nn::Layer made = primitive(entry, x.type());
  x = with_input(x.shape(), [&] { return checked(made(x)); });
  return made;
}

nn::Layer NetworkBuilder::primitive(const Entry& entry, const Type& x) const {
  const Untraced untraced;
  OptionReader options(entry.options);
  if (entry.kind == "model") return zoo_network(entry.what, x, options);
  const std::unique_ptr<nn::NamedLayer> named = nn::make_layer(entry.what);
  if (!named) {
    Names known = nn::layer_names();
    known.insert(known.end(), kJoins.begin(), kJoins.end());
    if (blocks_)
      for (const auto& [name, definition] : *blocks_) known.push_back(name);
    const std::string near = nearest(entry.what, known);
    fail(Fault::usage, "there is no layer '", entry.what, "'; ",
         near.empty() ? "" : text("did you mean '", near, "'? "),
         "`neurim layers` lists them, and plugins=FILE adds your own");
  }
  named->fields(options);
  options.check_all_known();
  return with_input(x.shape, [&] { return named->build(x); });
}

nn::Network NetworkBuilder::block(const Toml& definition, const Entry& entry, Tensor& x) {
  const std::string what = text("block ", entry.what, ": ");
  const Toml::Table& body = located(where_, definition, what, [&]() -> const Toml::Table& {
    const Toml::Table& found = table_of(definition, "this");
    check_known(where_, what, found, {"args", "layers"});
    require(found.contains("layers"), "this has no layers; give a list of them");
    return found;
  });
  Toml::Table scope = arguments(body);
  Names known;
  for (const auto& [name, value] : scope) known.push_back(name);
  for (const auto& [name, value] : entry.options) {
    require(contains(known, name), "block ", entry.what, " has no argument '", name, '\'', suggestion(name, known));
    scope[name] = value;
  }
  scope.insert(globals_.begin(), globals_.end());  // arguments hide what the file has under their names
  return network(*find(body, "layers"), x, std::move(scope), entry.path + '.', entry.depth + 1);
}

}  // namespace neurim
