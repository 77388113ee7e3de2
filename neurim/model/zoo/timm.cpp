#include "neurim/model/zoo/timm.h"

#include "neurim/base/error.h"

namespace neurim::zoo {

namespace {

class RenamingParts final : public PathParts {
 public:
  RenamingParts(Parts& outer, const Renames& names) : outer_(outer), names_(names) {}
  void param(std::string_view name, Tensor& tensor, Role role, const nn::Init& init) override {
    outer_.param(renamed(text(path(), name), names_), tensor, role, init);
  }

 private:
  Parts& outer_;
  const Renames& names_;
};

}  // namespace

Renames reversed(const Renames& names) {
  Renames back;
  for (const auto& [torchvision, timm] : names) {
    const bool added = back.emplace(timm, torchvision).second;
    NEURIM_ASSERT(added);
  }
  return back;
}

std::string renamed(const std::string& name, const Renames& names) {
  for (std::size_t end = name.size(); end != std::string::npos && end > 0; end = name.rfind('.', end - 1)) {
    const auto found = names.find(std::string_view(name).substr(0, end));
    if (found != names.end()) return found->second + name.substr(end);
  }
  return name;
}

void Renamed::parts(Parts& p) {
  RenamingParts renaming(p, names);
  net.parts(renaming);
}

void add_inverted_residual(Renames& names, const std::string& begin, const std::string& timm,
                           const std::vector<std::string>& layers, const std::string& squeeze) {
  static const std::vector<std::string> expands{"conv_pw", "bn1", "conv_dw", "bn2", "conv_pwl", "bn3"},
      keeps{"conv_dw", "bn1", "conv_pw", "bn2"};
  const std::vector<std::string>& theirs = layers.size() == expands.size() ? expands : keeps;
  NEURIM_ASSERT(layers.size() == theirs.size());
  for (std::size_t i = 0; i < layers.size(); ++i) names[text(begin, '.', layers[i])] = text(timm, '.', theirs[i]);
  if (squeeze.empty()) return;
  names[text(begin, '.', squeeze, ".fc1")] = text(timm, ".se.conv_reduce");
  names[text(begin, '.', squeeze, ".fc2")] = text(timm, ".se.conv_expand");
}

}  // namespace neurim::zoo
