// Series of numbers and texts, and how they are cut into samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "neurim/base/file.h"
#include "neurim/data/sequences/corpus.h"
#include "neurim/data/sequences/series.h"
#include "neurim/data/sequences/windows.h"
#include "tests/damage.h"
#include "tests/pictures.h"

namespace neurim {
namespace {

TEST(Windows, EveryStepOfValidationAndTestIsATargetOnce) {
  for (const WindowOptions options :
       {WindowOptions{12, 3, 12}, WindowOptions{8, 8, 1}, WindowOptions{1, 1, 1}, WindowOptions{5, 1, 0},
        WindowOptions{7, 2, 9, 4}, WindowOptions{4, 4, 4, 1, 0, 0}}) {
    constexpr std::int64_t kSteps = 103;
    const Windows windows(kSteps, options, "x");
    const std::int64_t part = options.val_split > 0 ? 10 : 0, training = kSteps - 2 * part;
    EXPECT_EQ(windows.training_steps(), training);
    const std::int64_t begins[] = {0, training, training + part},
                       ends[] = {training, training + part, kSteps};
    for (const Split split : {Split::train, Split::val, Split::test}) {
      const auto s = static_cast<std::size_t>(split);
      std::vector<int> times(kSteps);
      for (std::int64_t i = 0; i < windows.size(split); ++i) {
        const std::int64_t input = windows.first_input(split, i), target = windows.first_target(split, i);
        EXPECT_EQ(target, input + options.shift);
        EXPECT_GE(input, 0);
        EXPECT_LE(input + options.inputs, kSteps);
        EXPECT_GE(target, begins[s]);
        EXPECT_LE(target + options.targets, ends[s]);
        for (std::int64_t t = target; t < target + options.targets; ++t) ++times[static_cast<std::size_t>(t)];
      }
      if (split == Split::train) {
        EXPECT_GT(windows.size(split), 0);
        if (windows.size(split) > 1) {
          EXPECT_EQ(windows.first_input(split, 1) - windows.first_input(split, 0), options.stride);
        }
        continue;
      }
      // No step twice, and at most a rest shorter than the targets (or what the inputs need past them) left
      // out.
      EXPECT_LE(*std::max_element(times.begin(), times.end()), 1);
      const std::int64_t past = std::max<std::int64_t>(0, options.inputs - options.shift - options.targets);
      const std::int64_t judged = std::accumulate(times.begin(), times.end(), std::int64_t{0});
      EXPECT_GT(judged, ends[s] - begins[s] - options.targets - past - (part == 0));
      EXPECT_EQ(windows.left_out(split), ends[s] - begins[s] - judged);
    }
  }
}

TEST(Windows, OptionsOutOfRangeAndTooShortSequencesAreErrors) {
  const auto message = [](std::int64_t steps, WindowOptions options, Fault fault = Fault::usage) {
    return error_of([&] { Windows(steps, options, "s.csv"); }, fault);
  };
  expect_words(message(100, {0, 1, 1}), {"inputs, targets and stride are 0, 1 and 1"});
  expect_words(message(100, {4, 1, -1}), {"shift is -1"});
  expect_words(message(100, {4, 1, 4, 1, 0.5, 0.5}), {"val_split", "[0, 1)"});
  expect_words(message(20, {30, 2, 30}, Fault::data), {"s.csv", "16 of the 20 steps", "takes 32"});
}

TEST(Windows, OrderIsAFunctionOfSeedAndEpoch) {
  const Windows windows(200, {8, 1, 8}, "x");
  const auto epoch = [&](std::uint64_t seed, std::uint32_t number, std::int64_t from) {
    WindowLoader loader(windows, Split::train, 32, {.seed = seed, .shuffle = true});
    EXPECT_EQ(loader.batches(), 5);
    loader.start(number, from);
    std::vector<std::int64_t> all, batch;
    while (loader.next(batch)) all.insert(all.end(), batch.begin(), batch.end());
    return all;
  };
  const std::vector<std::int64_t> whole = epoch(1, 0, 0);
  EXPECT_EQ(std::set(whole.begin(), whole.end()).size(), 152u);
  EXPECT_EQ(epoch(1, 0, 0), whole);
  EXPECT_EQ(epoch(1, 0, 3), std::vector(whole.begin() + 96, whole.end()));
  EXPECT_NE(epoch(1, 1, 0), whole);
  EXPECT_NE(epoch(2, 0, 0), whole);
}

TEST(Series, ColumnsOfNumbersAndWhatIsLeftOut) {
  const TempFolder temp;
  write(temp.at("s.csv"), "Date,Temp,Rain\n2020-01-01,20.5, 1\n2020-01-02,-3e1,+2\n");
  const Series series = read_series(temp.at("s.csv"));
  EXPECT_EQ(series.columns, (std::vector<std::string>{"temp", "rain"}));
  EXPECT_EQ(series.values, (std::vector<float>{20.5f, 1, -30, 2}));
  EXPECT_EQ(series.steps(), 2);
  ASSERT_EQ(series.notes.size(), 1u);
  expect_words(series.notes[0], {"date", "left out"});
  EXPECT_EQ(series.column("Rain"), 1);
  expect_words(error_of([&] { series.column("wind"); }, Fault::usage), {"wind", "temp, rain"});
  EXPECT_EQ(read_series(temp.at("s.csv"), {"Rain"}).values, (std::vector<float>{1, 2}));

  float out[4];
  const std::int64_t columns[] = {1, 0};
  copy_steps(series, 0, 2, columns, out);
  EXPECT_EQ(std::vector<float>(out, out + 4), (std::vector<float>{1, 20.5f, 2, -30}));

  write(temp.at("newest_first.csv"), "Date,Temp\n2020-01-02,1\n2020-01-01,2\n");
  EXPECT_EQ(read_series(temp.at("newest_first.csv")).notes.size(), 2u);
  const auto message = [&](const std::string& content, const std::vector<std::string>& columns = {}) {
    write(temp.at("bad.csv"), content);
    return error_of([&] { read_series(temp.at("bad.csv"), columns); });
  };
  expect_words(message("a,b\n1,2\n3,\n"), {"bad.csv:3", "column b", "nothing"});
  expect_words(message("a,b\n1,2\n3,x\n"), {"bad.csv:3", "column b", "'x'"});
  expect_words(message("a\n1\nnan\n"), {"bad.csv:3", "'nan'", "finite"});
  expect_words(message("a\n1\n1e99\n"), {"bad.csv:3", "'1e99'"});
  expect_words(message("a\n1\n\n\n2\n"), {"bad.csv:3: is empty where a row is a step"});
  expect_words(message("a,b\r\n1,2\r\n\r\n3,4\r\n"), {"bad.csv:3: is empty"});
  write(temp.at("bad.jsonl"), "{\"a\":1}\n{\"a\":2}\n \n{\"a\":3}\n");
  expect_words(error_of([&] { read_series(temp.at("bad.jsonl")); }), {"bad.jsonl:3: is empty"});
  write(temp.at("ends.csv"), "\na,b\n1,\"2\"\n3,4\n\n\n");  // before and behind the rows
  EXPECT_EQ(read_series(temp.at("ends.csv")).steps(), 2);
  write(temp.at("ends.jsonl"), "\n{\"a\":1}\n{\"a\":2}\n\n");
  EXPECT_EQ(read_series(temp.at("ends.jsonl")).steps(), 2);
  expect_words(message("a\nx\n"), {"holds no numbers"});
  expect_words(message("a\n"), {"holds no numbers"});
  expect_words(message("a,b\n1,2\n", {"c"}), {"no column c", "a, b"});
}

TEST(Series, ScalingIsOfTheTrainingStepsAlone) {
  const Series series{.path = "s", .columns = {"a", "b"}, .values = {1, 7, 3, 7, 100, 7}};
  const Scaling scaling = scaling_of(series, 2);
  EXPECT_EQ(scaling.mean, (std::vector<double>{2, 7}));
  EXPECT_EQ(scaling.deviation, (std::vector<double>{1, 1}));
  expect_words(error_of([&] { scaling_of(series, 4); }, Fault::usage), {"4 of 3 steps"});
}

TEST(Corpus, CharactersAreNumberedInOrder) {
  const TempFolder temp;
  write(temp.at("t.txt"), "\xEF\xBB\xBFöb€a\n𝄞a");
  const Corpus corpus = read_corpus(temp.at("t.txt"));
  EXPECT_EQ(corpus.vocabulary.characters(), (std::vector<char32_t>{U'\n', U'a', U'b', U'ö', U'€', U'𝄞'}));
  EXPECT_EQ(corpus.characters, (std::vector<std::int32_t>{3, 2, 4, 1, 0, 5, 1}));
  EXPECT_EQ(corpus.vocabulary.decode(corpus.characters), "öb€a\n𝄞a");
  expect_words(error_of([&] { corpus.vocabulary.encode("abc", "prompt"); }),
               {"prompt", "'c'", "byte 2", "of the vocabulary"});
  expect_words(error_of([&] { Vocabulary::of("ab", "x").encode("\n", "prompt"); }), {"the character U+000A at byte 0"});
  expect_words(error_of([&] { corpus.vocabulary.decode({6}); }, Fault::usage), {"6 is no character"});
  for (const std::vector<char32_t>& bad :
       {std::vector<char32_t>{U'b', U'a'}, {U'a', U'a'}, {0xD800}, {0x110000}})
    expect_words(error_of([&] { Vocabulary{bad}; }), {"vocabulary: entry"});
}

TEST(Corpus, WhatIsNoUtf8IsNamedByItsByte) {
  const TempFolder temp;
  const auto message = [&](const std::string& content) {
    write(temp.at("t.txt"), content);
    return error_of([&] { read_corpus(temp.at("t.txt")); });
  };
  // A lone continuation, a cut sequence, overlong forms, a surrogate, past the last character, a wrong
  // continuation.
  for (const std::string bad : {"\x80", "\xE2\x82", "\xC0\xAF", "\xE0\x80\xAF", "\xF0\x80\x80\xAF",
                                "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC3(", "\xFF"})
    expect_words(message("ab" + bad), {"t.txt", "byte 2 ", "UTF-8"});
  expect_words(message(""), {"is empty"});
  damage_everywhere("a\xC3\xB6\xE2\x82\xAC\xF0\x9D\x84\x9E", [&](const std::string& bytes) {
    write(temp.at("t.txt"), bytes);
    read_corpus(temp.at("t.txt"));
  });
}

TEST(Sequences, RealSeriesAndText) {
  NEED_DATA(temperatures_file, "text-and-series/daily-min-temperatures.csv");
  NEED_DATA(shakespeare_file, "text-and-series/tinyshakespeare.txt");
  const Series temperatures = read_series(temperatures_file);
  EXPECT_EQ(temperatures.columns, std::vector<std::string>{"temp"});
  EXPECT_EQ(temperatures.steps(), 3650);
  EXPECT_EQ(temperatures.values[0], 20.7f);
  const Corpus shakespeare = read_corpus(shakespeare_file);
  EXPECT_EQ(shakespeare.characters.size(), 1115394u);
  EXPECT_EQ(shakespeare.vocabulary.size(), 65);
  EXPECT_EQ(shakespeare.vocabulary.decode(shakespeare.characters), read_file(shakespeare_file));
}

}  // namespace
}  // namespace neurim
