// The calls of NCCL, and what comes of them, with a library that imitates it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/base/text.h"
#include "neurim/distributed/local_wire.h"
#include "neurim/distributed/nccl_group.h"
#include "tests/errors.h"

namespace neurim {
namespace {

using namespace std::chrono_literals;

/// Beside the program of the tests.
std::string fake() { return (fs::read_symlink("/proc/self/exe").parent_path() / "libfake_nccl.so").string(); }

template <class Function>
Function* of_fake(const char* name) {
  void* const library = ::dlopen(fake().c_str(), RTLD_LAZY);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("NEURIM_NCCL_LIBRARY", fake().c_str(), 1);
    ::setenv("NEURIM_CUDA_LIBRARY", fake().c_str(), 1);
  }
};

TEST_F(Nccl, GivesTheNumbersOfOtherGroups) {
  as_local_ranks(3, [](const std::shared_ptr<ProcessGroup>& control) {
    const std::shared_ptr<ProcessGroup> group = nccl_group(control, control->rank(), 5s);
    EXPECT_EQ(group->backend(), "nccl");
    const auto rank = static_cast<float>(group->rank());
    for (const DType sent : {DType::f32, DType::bf16, DType::f16}) {
      std::vector<float> values{rank, 2 * rank, 1};
      group->all_reduce(values, Reduction::sum, sent);
      EXPECT_EQ(values, (std::vector<float>{3, 6, 3}));
    }
    std::vector<float> most{rank}, product{rank + 1};
    group->all_reduce(most, Reduction::max, DType::f32);
    group->all_reduce(product, Reduction::product, DType::f32);
    EXPECT_EQ(most[0], 2);
    EXPECT_EQ(product[0], 6);
    std::vector<double> least{rank + 0.5};
    group->all_reduce(least, Reduction::min);
    EXPECT_EQ(least[0], 0.5);
    std::vector<float> values{1, 2, 3, 4};
    const std::vector<std::size_t> bounds{0, 3, 3, 4};
    group->reduce_scatter(values, bounds, DType::f32);
    if (group->rank() == 0) EXPECT_EQ(values[2], 9);
    if (group->rank() == 2) EXPECT_EQ(values[3], 12);
    group->all_gather(values, bounds, DType::f32);
    EXPECT_EQ(values, (std::vector<float>{3, 6, 9, 12}));
    EXPECT_EQ(group->all_gather(text(group->rank())), (std::vector<std::string>{"0", "1", "2"}));
    std::vector<float> one{1};
    group->duplicate()->all_reduce(one, Reduction::sum, DType::f32);
    EXPECT_EQ(one[0], 3);
    const std::shared_ptr<ProcessGroup> part = group->subgroup(group->rank() == 1 ? std::vector<int>{1}
                                                                                  : std::vector<int>{0, 2});
    part->all_reduce(one, Reduction::sum, DType::f32);
    EXPECT_EQ(one[0], group->rank() == 1 ? 3 : 6);
    group->barrier();
  });
  const std::string calls = of_fake<const char*()>("fake_nccl_calls")();
  for (const char* call : {"rank 2 ncclCommInitRank of 3 on device 2", "rank 0 ncclAllReduce count=3 type=7 op=0",
                           "rank 0 ncclAllReduce count=3 type=9 op=0", "rank 0 ncclAllReduce count=3 type=6 op=0",
                           "rank 0 ncclAllReduce count=1 type=7 op=2", "rank 0 ncclAllReduce count=1 type=7 op=1",
                           "rank 0 ncclAllReduce count=1 type=8 op=3", "rank 1 ncclReduce count=3 type=7 root=0",
                           "rank 1 ncclReduce count=1 type=7 root=2", "rank 1 ncclBroadcast count=3 type=7 root=0"})
    EXPECT_NE(calls.find(text(call, '\n')), calls.npos) << call << " is not among\n" << calls;
  EXPECT_EQ(calls.find("root=1"), calls.npos);  // whose part is empty
}

TEST_F(Nccl, DoesNotWaitForEver) {
  auto* const hangs = of_fake<void(bool)>("fake_nccl_hangs");
  const std::string said = message_of([&] {
    as_local_ranks(2, [&](const std::shared_ptr<ProcessGroup>& control) {
      const std::shared_ptr<ProcessGroup> group = nccl_group(control, 0, 50ms);
      control->barrier();
      hangs(true);
      std::vector<float> values{1};
      group->all_reduce(values, Reduction::sum, DType::f32);
    });
  });
  hangs(false);
  EXPECT_NE(said.find("all_reduce of NCCL did not end in time"), said.npos) << said;
  EXPECT_NE(std::string(of_fake<const char*()>("fake_nccl_calls")()).find("ncclCommAbort"), std::string::npos);
}

TEST_F(Nccl, SaysWhatIsMissing) {
  const auto message = [] {
    return message_of(
        [] { as_local_ranks(2, [](const auto& control) { nccl_group(control, control->rank() * 9, 1s); }); });
  };
  ::setenv("FAKE_NCCL_DEVICES", "10", 1);
  EXPECT_EQ(message(), "rank 1: cudaSetDevice: invalid device ordinal");
  ::setenv("FAKE_NCCL_DEVICES", "0", 1);
  EXPECT_EQ(message(), "rank 0: there is no GPU");
  ::unsetenv("FAKE_NCCL_DEVICES");
  ::setenv("NEURIM_NCCL_LIBRARY", "libnone.so", 1);
  EXPECT_NE(message().find("libnone.so: cannot open shared object file"), std::string::npos) << message();
  EXPECT_NE(message().find("set NEURIM_BACKEND=tcp"), std::string::npos) << message();
}

}  // namespace
}  // namespace neurim
