#include "neurim/core/dim.h"

#include <gtest/gtest.h>

#include <limits>

#include "neurim/base/error.h"
#include "neurim/core/types.h"

namespace neurim {
namespace {

const Dim batch = Dim::symbol("batch"), steps = Dim::symbol("time");

TEST(Dim, NumbersCountAsBefore) {
  const Dim seven = 7;
  EXPECT_EQ(seven + 3, 10);
  EXPECT_EQ(7 - seven, 0);
  EXPECT_EQ(seven / 2, 3);
  EXPECT_EQ(-seven / 2, -3);
  EXPECT_EQ(seven % 4, 3);
  EXPECT_TRUE(seven > 6 && seven <= 7 && 8 > seven);
  const std::int64_t number = seven;
  EXPECT_EQ(number, 7);
  EXPECT_FALSE(seven.symbolic());
}

TEST(Dim, ExpressionsAreSimplified) {
  EXPECT_EQ(text(batch), "batch");
  EXPECT_EQ(text(batch * 4 + 1), "4*batch+1");
  EXPECT_EQ(text(4 * steps * batch - 2 * batch), "4*batch*time-2*batch");
  EXPECT_EQ(batch - batch, 0);
  EXPECT_EQ(batch * steps / batch, steps);
  EXPECT_EQ((6 * batch + 4) / 2, 3 * batch + 2);
  EXPECT_EQ(text(steps / 2), "floor(time/2)");
  EXPECT_EQ(text((steps - 1) / 2 + 1), "floor((time+1)/2)");
  EXPECT_EQ((steps + 5) / 2, (steps + 1) / 2 + 2);
  EXPECT_EQ(3 * steps / 2, steps + steps / 2);
  EXPECT_EQ((4 * batch + 1) / 2, 2 * batch);
  EXPECT_EQ(6 * batch % 3, 0);
  EXPECT_EQ(Shape({batch, 3, 4}).numel(), 12 * batch);
  EXPECT_EQ(Shape({batch, 0}).numel(), 0);
}

TEST(Dim, TextReadsBack) {
  for (const Dim dim : {Dim(7), Dim(-3), batch, 4 * batch + 1, steps / 2, (3 * steps - batch) / (batch * 2), -batch + 2,
                        ((steps + 1) / 2 + 3) / 4 * batch}) {
    EXPECT_EQ(Dim::parse(text(dim)), dim) << dim;
    EXPECT_EQ(text(Dim::parse(text(dim))), text(dim));
  }
}

// An expression and what C++ computes of the numbers agree.
TEST(Dim, ValuesAreThoseOfNumbers) {
  const auto conv = [](auto size) { return (size + 2 * 3 - 7) / 2 + 1; };
  const auto pooled = [&](auto size) { return (conv(size) + 2 - 3) / 2 + 1; };
  for (std::int64_t n = 1; n < 50; ++n) {
    const auto is_n = [&](std::string_view) { return Dim(n); };
    EXPECT_EQ(Dim::parse(text(conv(steps)), is_n), conv(n)) << n;
    EXPECT_EQ(Dim::parse(text(pooled(steps)), is_n), pooled(n)) << n;
    EXPECT_EQ(Dim::parse(text(steps % 5), is_n), n % 5) << n;
    EXPECT_EQ(Dim::parse(text(7 * steps / 3), is_n), 7 * n / 3) << n;
  }
}

TEST(Dim, WhatDependsOnSymbolsIsNoNumber) {
  EXPECT_THROW((void)static_cast<std::int64_t>(batch), Error);
  EXPECT_THROW((void)(batch < 3), Error);
  EXPECT_TRUE(batch >= 1 && batch > 0 && steps + 1 > steps);
  EXPECT_THROW((void)(batch < steps), Error);
  EXPECT_TRUE(steps.may_be_positive() && (steps - 5).may_be_positive());
  EXPECT_FALSE((-steps).may_be_positive());
  EXPECT_THROW((void)((steps - 5) / batch >= 0), Error);  // floor((1-5)/4) is -1
  EXPECT_TRUE((steps + 5) / batch >= 0);
}

TEST(Dim, AssumptionsAreKept) {
  Dim::Assumptions::Pairs pairs;
  {
    const Dim::Assumptions collect(&pairs);
    EXPECT_FALSE(batch == 2);
    EXPECT_FALSE(batch == 0);          // known: a symbol is at least 1
    EXPECT_EQ(4 * batch / 4, batch);   // no question of the caller's
    EXPECT_FALSE(batch + 1 == batch);  // known too
    const Dim::Assumptions none(nullptr);
    EXPECT_FALSE(batch == 3);
  }
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs.begin()->first, std::pair(std::string("batch"), std::string("2")));
}

TEST(Dim, EveryNumberIsRead) {
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max()})
    EXPECT_EQ(Dim::parse(std::to_string(number)), number);
}

TEST(Dim, BadTextsAreRefused) {
  for (const char* text : {"", "4*", "(batch", "floor(batch)", "floor(batch/0)", "batch batch", "1e9", "4batch", "-",
                           "++", "99999999999999999999", "b\xc3\xa4"})
    EXPECT_THROW(Dim::parse(text), Error) << text;
  EXPECT_THROW(Dim::symbol("4"), Error);
  EXPECT_THROW(Dim::symbol("a b"), Error);
  EXPECT_THROW(Dim::parse(std::string(10000, '(')), Error);
  std::string product = "batch";
  for (int i = 0; i < 100; ++i) product += "*batch";
  EXPECT_THROW(Dim::parse(product), Error);
  const Dim large = std::int64_t{1} << 61;
  EXPECT_THROW(large * 4, Error);
  EXPECT_THROW(large + large + large + large, Error);
  EXPECT_THROW(large / 0, Error);
}

}  // namespace
}  // namespace neurim
