// Building the network that a model file lists. Internal to model/.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/model/option_reader.h"
#include "neurim/nn/network.h"

namespace neurim {

/// Builds the network of a file in the current trace. Throws Error(data) with the line.
class NetworkBuilder {
 public:
  /// `document` and `where` outlive it.
  NetworkBuilder(const Toml::Table& document, const std::string& where, std::int64_t classes);

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
  void count_layer();

  const std::string& where_;
  const Toml::Table* blocks_ = nullptr;
  Toml::Table globals_;  // what $names mean everywhere
  std::int64_t layers_ = 0;
};

}  // namespace neurim
