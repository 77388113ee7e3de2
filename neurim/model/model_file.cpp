#include "neurim/model/model_file.h"

#include <algorithm>
#include <cctype>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/model/option_reader.h"
#include "neurim/model/zoo.h"
#include "neurim/model/zoo/entry.h"
#include "neurim/nn/named_layers.h"
#include "neurim/nn/network.h"
#include "neurim/ops/add.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/mul.h"

namespace neurim {

namespace {

using Names = std::vector<std::string>;

constexpr std::int64_t kMostSide = 1 << 14, kMostChannels = 1 << 16, kMostClasses = 1 << 24;
constexpr std::int64_t kMostElements = std::int64_t{1} << 36;  // of a result for one image
constexpr std::int64_t kMostLayers = 10'000;
constexpr int kMostDepth = 16;  // of blocks in blocks

const Names kParts{"args", "blocks", "imgsz", "in_chans", "layers", "mean", "num_classes", "std"};
const Names kKinds{"layer", "layers", "model"};
const Names kWords{"from", "layer", "layers", "model", "name", "repeat"};  // of an entry; others are options
const Names kJoins{"Add", "Concat", "Mul"};

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Runs `body`; its usage errors become errors of that place in the file.
template <class Body>
decltype(auto) located(const std::string& where, const Toml& at, std::string_view what, Body body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.fault() != Fault::usage) throw;
    fail(Fault::data, where, ':', at.line, ": ", what, error.what());
  }
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

void check_known(const Toml::Table& table, const Names& known) {
  for (const auto& [name, value] : table)
    require(contains(known, name), "there is no '", name, '\'', suggestion(name, known));
}

const Toml::Table& table_of(const Toml& value, std::string_view what) {
  const auto* table = value.as<Toml::Table>();
  require(table, what, " is ", value, "; it is a table");
  return *table;
}

const Toml::Array& list_of(const Toml& value) {
  const auto* list = value.as<Toml::Array>();
  require(list && !list->empty(), "layers is ", value,
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
  require(!name.empty() && std::all_of(name.begin(), name.end(), fits) &&
              !std::all_of(name.begin(), name.end(), is_digit),
          "name is ", value, "; it is made of letters, digits, '_' and '-', and not of digits alone");
  return name;
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
  ModelOptions wanted{.in_chans = x.shape[1], .seed = {}};
  options("num_classes", wanted.num_classes);
  options.check_all_known();
  Model model = create_model(name, wanted);
  for (const Parameter& parameter : named_parameters(model)) parameter.tensor.set_name({});
  return model.net;
}

/// Builds the network of a file in the current trace.
class Builder {
 public:
  /// `document` and `where` outlive it.
  Builder(const Toml::Table& document, const std::string& where, std::int64_t classes);

  /// The network for inputs like `x`, which becomes its result.
  nn::Network network(const Toml& layers, Tensor& x) { return network(layers, x, globals_, "", 0); }

 private:
  /// A list of layers that is being built.
  struct List {
    const Toml::Table& scope;
    std::string path;  ///< of its layers: "stage1."
    int depth;
    Tensors results;                                          ///< the input, and what each layer gives
    std::map<std::string, std::size_t, std::less<>> numbers;  ///< of the results that have names
    nn::Network network;
  };
  /// An entry of a list, whose words are evaluated.
  struct Entry {
    std::string kind, what;  ///< one of kKinds; the name of the layer or model
    std::string path;        ///< "stage1.conv"
    const Toml::Table* scope = nullptr;
    int depth = 0;
    std::vector<std::size_t> from;
    Toml::Table options;
    const Toml* layers = nullptr;  ///< of kind "layers"
  };

  nn::Network network(const Toml& layers, Tensor& x, Toml::Table scope, std::string path, int depth);
  void add(const Toml& given, List& list);
  Entry entry_of(const Toml::Table& given, const std::string& name, const List& list) const;
  std::size_t result_named(const Toml& from, const List& list) const;
  nn::Join join_of(const Entry& entry) const;
  nn::Layer layer(const Entry& entry, Tensor& x);
  nn::Layer primitive(const Entry& entry, const Type& x) const;
  nn::Network block(const Toml& definition, const Entry& entry, Tensor& x);
  /// The arguments of a file or block under their names: their defaults.
  Toml::Table arguments(const Toml::Table& holder) const;
  const Toml* block_named(std::string_view name) const { return blocks_ ? find(*blocks_, name) : nullptr; }
  /// Blocks of blocks make many of few lines.
  void count_layer() {
    require(++layers_ <= kMostLayers, "the network has more than ", kMostLayers, " layers");
  }

  const std::string& where_;
  const Toml::Table* blocks_ = nullptr;
  Toml::Table globals_;  // what $names mean everywhere
  std::int64_t layers_ = 0;
};

Builder::Builder(const Toml::Table& document, const std::string& where, std::int64_t classes)
    : where_(where) {
  globals_["classes"].value = classes;
  globals_.merge(arguments(document));
  if (const Toml* blocks = find(document, "blocks"))
    blocks_ = located(where_, *blocks, "", [&] { return &table_of(*blocks, "blocks"); });
}

Toml::Table Builder::arguments(const Toml::Table& holder) const {
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

nn::Network Builder::network(const Toml& layers, Tensor& x, Toml::Table scope, std::string path, int depth) {
  require(depth <= kMostDepth, "blocks stand more than ", kMostDepth,
          " deep in each other; does one use itself?");
  if (x.rank() >= 2) scope["in"].value = x.size(1);
  List list{scope, std::move(path), depth, {x}, {{"input", 0}}, {}};
  for (const Toml& given : list_of(layers)) add(given, list);
  x = list.results.back();
  return std::move(list.network);
}

/// Adds what an entry says to the list, as its next result.
void Builder::add(const Toml& given, List& list) {
  const std::string place = text(list.results.size() - 1);
  const auto* table = given.as<Toml::Table>();
  const std::string said = shown(table, "name"), kind = shown(table, "layer") + shown(table, "model");
  const std::string what =
      text("layer ", list.path, said.empty() ? place : said, kind.empty() ? "" : text(" (", kind, ')'), ": ");
  located(where_, given, what, [&] {
    const Toml::Table& words = table_of(given, "this");
    const Toml* named = find(words, "name");
    const std::string name = named ? checked_name(*named) : place;
    require(!list.numbers.contains(name), "there is a layer of this name before; names differ within a list");
    Entry entry = entry_of(words, name, list);
    Tensor y = list.results[entry.from[0]];
    const Toml* repeat = find(words, "repeat");
    if (nn::Join joined = join_of(entry)) {
      require(!repeat && entry.from.size() > 1,
              "this takes two results or more, from = [\"name\", -1], and no repeat");
      count_layer();
      Tensors in;
      for (const std::size_t from : entry.from) in.push_back(list.results[from]);
      y = joined(in);
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
    require(y.numel() <= kMostElements, "gives ", y.shape(), ", more than ", kMostElements,
            " values for one image");
    list.results.push_back(y);
    if (named) list.numbers.emplace(name, list.results.size() - 1);
  });
}

Builder::Entry Builder::entry_of(const Toml::Table& given, const std::string& name, const List& list) const {
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
std::size_t Builder::result_named(const Toml& from, const List& list) const {
  const auto count = static_cast<std::int64_t>(list.results.size());
  if (const auto* number = from.as<std::int64_t>()) {
    require(*number >= -count && *number < count - 1, "from is ", *number, ", and there are ", count - 1,
            " layers before: 0 is the first of them, -1 the last");
    return static_cast<std::size_t>(*number < 0 ? count + *number : *number + 1);
  }
  const std::string name = word_of("from", from);
  const auto found = list.numbers.find(name);
  if (found != list.numbers.end()) return found->second;
  Names known;
  for (const auto& [each, number] : list.numbers) known.push_back(each);
  fail(Fault::usage, "from: there is no '", name, "' before", suggestion(name, known));
}

/// What an entry makes of several results; nothing for other entries.
nn::Join Builder::join_of(const Entry& entry) const {
  if (entry.kind != "layer" || !contains(kJoins, entry.what) || block_named(entry.what) ||
      nn::make_layer(entry.what))
    return {};
  std::int64_t axis = 1;
  OptionReader options(entry.options);
  if (entry.what == "Concat") options("axis", axis);
  options.check_all_known();
  if (entry.what == "Add") return add_equal;
  if (entry.what == "Mul") return multiply;
  return [axis](const Tensors& x) { return concat(x, axis); };
}

/// The layer of an entry for an input x, which becomes its result.
nn::Layer Builder::layer(const Entry& entry, Tensor& x) {
  count_layer();
  if (entry.kind == "layers") {
    check_known(entry.options, {});
    return network(*entry.layers, x, *entry.scope, entry.path + '.', entry.depth + 1);
  }
  const Toml* definition = entry.kind == "layer" ? block_named(entry.what) : nullptr;
  if (definition) return block(*definition, entry, x);
  nn::Layer made = primitive(entry, x.type());
  x = with_input(x.shape(), [&] { return made(x); });
  return made;
}

nn::Layer Builder::primitive(const Entry& entry, const Type& x) const {
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

nn::Network Builder::block(const Toml& definition, const Entry& entry, Tensor& x) {
  const Toml::Table& body =
      located(where_, definition, text("block ", entry.what, ": "), [&]() -> const Toml::Table& {
        const Toml::Table& found = table_of(definition, "this");
        check_known(found, {"args", "layers"});
        require(found.contains("layers"), "this has no layers; give a list of them");
        return found;
      });
  Toml::Table scope = arguments(body);
  Names known;
  for (const auto& [name, value] : scope) known.push_back(name);
  for (const auto& [name, value] : entry.options) {
    require(contains(known, name), "block ", entry.what, " has no argument '", name, '\'',
            suggestion(name, known));
    scope[name] = value;
  }
  scope.insert(globals_.begin(), globals_.end());  // arguments hide what the file has under their names
  return network(*find(body, "layers"), x, std::move(scope), entry.path + '.', entry.depth + 1);
}

}  // namespace

ModelFile::ModelFile(std::string text, const std::string& where)
    : text_(std::move(text)),
      where_(where),
      document_(std::make_shared<const Toml>(parse_toml(text_, where))) {
  for (const auto& [name, value] : document())
    located(where_, value, "", [&, &key = name] {
      require(contains(kParts, key), "there is no '", key, '\'', suggestion(key, kParts));
    });
  if (!says("layers"))
    fail(Fault::data, where_,
         ": has no layers; give a list of them: layers = [ { layer = \"Flatten\" }, … ]");
}

const Toml::Table& ModelFile::document() const { return *document_->as<Toml::Table>(); }

bool ModelFile::says(std::string_view key) const { return find(document(), key) != nullptr; }

std::pair<std::int64_t, std::int64_t> ModelFile::size(const ModelFileOptions& options) const {
  if (options.height > 0) return {options.height, options.width};
  const Toml* given = find(document(), "imgsz");
  const std::int64_t usual = zoo::Entry().image_size;
  if (!given) return {usual, usual};
  return located(where_, *given, "", [&]() -> std::pair<std::int64_t, std::int64_t> {
    const auto* sides = given->as<Toml::Array>();
    require(!sides || sides->size() == 2, "imgsz is one number, or a list of height and width");
    return {whole_number("imgsz", sides ? sides->front() : *given, 1, kMostSide),
            whole_number("imgsz", sides ? sides->back() : *given, 1, kMostSide)};
  });
}

Model ModelFile::build(const ModelFileOptions& options) const {
  const auto fits = [](std::int64_t asked, std::int64_t most) { return asked >= 0 && asked <= most; };
  require(fits(options.num_classes, kMostClasses) && fits(options.in_chans, kMostChannels) &&
              fits(options.height, kMostSide) && fits(options.width, kMostSide),
          where_, ": num_classes (", options.num_classes, "), in_chans (", options.in_chans,
          ") and the images' size (", options.height, 'x', options.width, ") are at most ", kMostClasses,
          ", ", kMostChannels, " and ", kMostSide, ", and 0 for what the file says");
  const zoo::Entry usual{};
  const auto count = [&](const char* key, std::int64_t asked, std::int64_t otherwise, std::int64_t most) {
    const Toml* given = find(document(), key);
    if (asked > 0 || !given) return asked > 0 ? asked : otherwise;
    return located(where_, *given, "", [&] { return whole_number(key, *given, 1, most); });
  };
  const std::int64_t classes = count("num_classes", options.num_classes, usual.classes, kMostClasses);
  const std::int64_t channels = count("in_chans", options.in_chans, std::ssize(usual.mean), kMostChannels);
  const auto scaling = [&](const char* key, const std::vector<double>& otherwise) {
    const Toml* given = find(document(), key);
    if (!given) return zoo::per_channel(otherwise, channels);
    return located(where_, *given, "", [&] {
      const std::vector<double> values = numbers(key, *given);
      require(!values.empty(), key, " is empty; give one number, or one for each channel");
      return zoo::per_channel(values, channels);
    });
  };
  const std::pair<std::int64_t, std::int64_t> sides = size(options);
  const Toml& layers = *find(document(), "layers");
  const nn::Undrawn undrawn(options.most_values);
  Model model = located(where_, layers, "", [&]() -> Model {
    Trace trace({});
    Tensor y = trace.input({DType::f32, {1, channels, sides.first, sides.second}});
    nn::Layer net = Builder(document(), where_, classes).network(layers, y);
    const Shape logits{1, classes};
    require(y.shape() == logits, "the last layer gives ", y.shape(), " for one image, and ", classes,
            " classes take ", logits, "; end with ", y.rank() > 2 ? "{ layer = \"Flatten\" } and " : "",
            "{ layer = \"Linear\", out = \"$classes\" }");
    return {.name = fs::path(where_).stem().string(),
            .image_size = sides.first,
            .in_chans = channels,
            .num_classes = classes,
            .mean = scaling("mean", usual.mean),
            .deviation = scaling("std", usual.deviation),
            .net = std::move(net),
            .source = text_};
  });
  if (options.seed)
    initialise(model, *options.seed);
  else
    named_parameters(model);  // for the names
  return model;
}

bool is_model_file(std::string_view name) { return ends_with(name, ".toml"); }

Model create_model_file(const fs::path& path, const ModelFileOptions& options) {
  return ModelFile(read_file(path), path.string()).build(options);
}

}  // namespace neurim
