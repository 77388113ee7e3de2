// Where batches come from: our loader, or a plug-in that has to be there and to be of this release.
#include "neurim/data/open_loader.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/epochs.h"
#include "tests/images.h"

namespace neurim {
namespace {

TEST(OpenLoader, PluginsAreFoundAndCheckedOrRefused) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 3);
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  const auto open = [&](const std::string& loader) {
    return open_loader(loader, data, Split::train, {.height = 8, .width = 8});
  };
  EXPECT_EQ(epoch_of(*open("neurim"), 0).labels.size(), 6u);
  expect_words(error_of([&] { open("dahli"); }, Fault::usage), {"dahli", "neurim, dali"});

  const auto message = [&](const std::string& plugin) {
    ::setenv("NEURIM_DALI_PLUGIN", plugin.c_str(), 1);
    return error_of([&] { open("dali"); }, Fault::usage);
  };
  expect_words(message(temp.at("none.so")), {"none.so", "scripts/dali", "NEURIM_DALI_PLUGIN", "loader=neurim"});
  write(temp.at("text.so"), "not a library");
  expect_words(message(temp.at("text.so")), {"cannot be loaded", "text.so", "scripts/dali"});
  expect_words(message(OTHER_PLUGIN), {"built for neurim 0.0.1", "this is neurim", "scripts/dali"});
}

}  // namespace
}  // namespace neurim
