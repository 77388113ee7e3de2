// Every test program starts here: the registries are full before GoogleTest lists its cases.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "neurim/backend/cpu/common/tiles.h"
#include "neurim/backend/reference/view.h"
#if defined(NEURIM_F16_IMITATED)
#include "tests/f16_product.h"
#endif

namespace neurim {
void define_ops();
void add_reference_kernels();
void add_cpu_kernels();
void define_distributed();
}  // namespace neurim

/// Exits with 77, which ctest counts as skipped, where the processor lacks what the imitation itself is made of.
static void imitate_f16_products() {
#if defined(NEURIM_F16_IMITATED)
  if (neurim::isa() != neurim::Isa::avx512) std::exit(77);
  neurim::cpu::imitated_f16_products = {neurim::cpu::imitated::f16_product, neurim::cpu::imitated::f16_weight_grad};
#else
  std::exit(77);
#endif
}

/// Tests of kernels do without matrix tiles, as on most machines, but where NEURIM_TILES is "used" or "imitated".
static void choose_tiles() {
  using neurim::cpu::TilesBy;
  const char* const wanted = std::getenv("NEURIM_TILES");
  const bool native = wanted && std::string_view(wanted) == "used" && neurim::has_tiles();
  neurim::cpu::tiles_by = !wanted ? TilesBy::nobody : native ? TilesBy::machine : TilesBy::imitation;
}

int main(int argc, char** argv) {
  ::unsetenv("LD_PRELOAD");  // a sanitizer's: it is for this program, not for the tar that unpacks its data (whose
                             // leaks would fail it)
  neurim::define_ops();
  neurim::add_reference_kernels();
  neurim::add_reference_kernels_for(0);
  neurim::add_cpu_kernels();
  neurim::define_distributed();
  choose_tiles();
  if (std::getenv("NEURIM_F16_PRODUCTS")) imitate_f16_products();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
