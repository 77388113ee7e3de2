#include "neurim/data/open_loader.h"

#include <dlfcn.h>

#include "neurim/base/environment.h"
#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/data/dali/plugin.h"
#include "neurim/data/loader.h"

namespace neurim {
namespace {

constexpr const char* kPath = "NEURIM_DALI_PLUGIN";

fs::path plugin_path() {
  if (const char* named = environment(kPath)) return named;
  Dl_info library{};
  ::dladdr(reinterpret_cast<const void*>(&open_loader), &library);
  return fs::path(library.dli_fname).parent_path() / "libneurim_dali.so";
}

template <class Function>
Function* function(void* plugin, const fs::path& path, const char* name) {
  void* found = ::dlsym(plugin, name);
  require(found, "loader=dali: ", path.string(), " is no plug-in of Neurim: it has no ", name);
  return reinterpret_cast<Function*>(found);
}

/// Opens the plug-in for as long as the process lives.
PluginLoader* open_plugin() {
  const fs::path path = plugin_path();
  require(is_there(path), "loader=dali: there is no plug-in ", path.string(),
          "; build it with scripts/dali PYTHON (a Python that has nvidia-dali), name it in ", kPath,
          ", or use loader=neurim");
  void* plugin = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  require(plugin, "loader=dali: the plug-in cannot be loaded: ", plugin ? "" : ::dlerror(),
          "; build it again with scripts/dali, or use loader=neurim");
  const std::string version = function<PluginVersion>(plugin, path, "neurim_plugin_version")();
  require(version == plugin_version(), "loader=dali: ", path.string(), " was built for ", version, ", but this is ",
          plugin_version(), "; build it again with scripts/dali, or use loader=neurim");
  return function<PluginLoader>(plugin, path, "neurim_plugin_loader");
}

}  // namespace

std::vector<std::string> loader_names() { return {"neurim", "dali"}; }

std::unique_ptr<BatchSource> open_loader(std::string_view loader, const Dataset& dataset, Split split,
                                         const Preprocess& preprocess, const Augment& augment,
                                         const LoaderOptions& options) {
  if (loader == "neurim") return std::make_unique<Loader>(dataset, split, preprocess, augment, options);
  require(loader == "dali", "loader: there is no '", loader, "'; known are ", join(loader_names(), ", "));
  return std::unique_ptr<BatchSource>(open_plugin()(dataset, split, preprocess, augment, options));
}

}  // namespace neurim
