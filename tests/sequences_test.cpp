// Series of numbers and texts, and how they are cut into samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "neurim/base/file.h"
#include "neurim/data/sequences/corpus.h"
#include "neurim/data/sequences/series.h"
#include "neurim/data/sequences/time_order.h"
#include "neurim/data/sequences/windows.h"
#include "tests/damage.h"
#include "tests/images.h"

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
    const std::int64_t begins[] = {0, training, training + part}, ends[] = {training, training + part, kSteps};
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
        for (std::int64_t t = target; t < target + options.targets; ++t) ++times[t];
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
      const std::int64_t evaluated = std::accumulate(times.begin(), times.end(), std::int64_t{0});
      EXPECT_GT(evaluated, ends[s] - begins[s] - options.targets - past - (part == 0));
      EXPECT_EQ(windows.left_out(split), ends[s] - begins[s] - evaluated);
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
  EXPECT_EQ(series.values, (std::vector<double>{20.5, 1, -30, 2}));
  EXPECT_EQ(series.steps(), 2);
  ASSERT_EQ(series.notes.size(), 1u);
  expect_words(series.notes[0], {"date", "left out"});
  EXPECT_EQ(series.column("Rain"), 1);
  expect_words(error_of([&] { series.column("wind"); }, Fault::usage), {"wind", "temp, rain"});
  EXPECT_EQ(read_series(temp.at("s.csv"), {"Rain"}).values, (std::vector<double>{1, 2}));

  double out[4];
  const std::int64_t columns[] = {1, 0};
  copy_steps(series, 0, 2, columns, out);
  EXPECT_EQ(std::vector<double>(out, out + 4), (std::vector<double>{1, 20.5, 2, -30}));

  write(temp.at("newest_first.csv"), "Date,Temp\n2020-01-02,1\n2020-01-01,2\n");
  EXPECT_EQ(read_series(temp.at("newest_first.csv")).notes.size(), 2u);
  const auto message = [&](const std::string& content, const std::vector<std::string>& columns = {}) {
    write(temp.at("bad.csv"), content);
    return error_of([&] { read_series(temp.at("bad.csv"), columns); });
  };
  expect_words(message("a,b\n1,2\n3,\n"), {"bad.csv:3", "column b", "nothing"});
  expect_words(message("a,b\n1,2\n3,x\n"), {"bad.csv:3", "column b", "'x'"});
  expect_words(message("a\n1\nnan\n"), {"bad.csv:3", "'nan'", "finite"});
  expect_words(message("a\n1\n1e400\n"), {"bad.csv:3", "'1e400'"});
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

TEST(Series, NumbersAreThoseOfTheFile) {
  const TempFolder temp;
  write(temp.at("s.csv"), "a\n99999997.069\n1e-60\n-1.7e308\n+.5\n1e-400\n7.\n");
  EXPECT_EQ(read_series(temp.at("s.csv")).values, (std::vector<double>{99999997.069, 1e-60, -1.7e308, 0.5, 0, 7}));
  // Numbers of another form, as the target and as a column that is named; the first such cell is named.
  for (const std::string form :
       {"1,234", "1,5",  "$12",  "12 €",  "5 %", "1 234", "1'234", "1.234.567", "3-5",  "\u22125",
        "+-5",   "12kg", "0x1F", "1e400", "inf", "(5)",   "~3",    "1/2",       "true", "2024-01-02"}) {
    write(temp.at("s.csv"), text("day,b\nx,1\ny,\"", form, "\"\n"));
    for (const std::vector<std::string>& columns : {std::vector<std::string>(), {"b"}})
      expect_words(error_of([&] { read_series(temp.at("s.csv"), columns, "b"); }),
                   {"s.csv:3", "column b", form, "write it as 1234.5"});
    write(temp.at("s.csv"), text("day,B\nx,\"", form, "\"\n"));  // no cell is a number
    expect_words(error_of([&] { read_series(temp.at("s.csv"), {}, "B"); }), {"s.csv:2", "column b", form});
  }
}

TEST(Series, TwoColumnsOfANameAreAnError) {
  const TempFolder temp;
  const auto message = [&](const std::string& file, const std::string& content,
                           const std::vector<std::string>& columns = {}) {
    write(temp.at(file), content);
    return error_of([&] { read_series(temp.at(file), columns); });
  };
  expect_words(message("s.csv", "day,sold,sold\nx,0,1\n"), {"s.csv: two columns are called sold"});
  expect_words(message("s.csv", "day,Sold,sold \nx,a,1\n"), {"two columns are called sold"});
  expect_words(message("s.tsv", "sold\tSOLD\n0\t1\n", {"sold"}), {"two columns are called sold"});
  expect_words(message("s.jsonl", "{\"a\":1,\"Sold\":1}\n{\"a\":1,\"Sold\":2,\"sold\":3}\n"),
               {"two columns are called sold"});
  expect_words(message("s.jsonl", "{\"sold\":1,\"sold\":2}\n"), {"two columns are called sold"});
  write(temp.at("s.csv"), "sold,note,note,,\n1,x,y,,\n2,x,y,,\n");  // those that are left out may be
  EXPECT_EQ(read_series(temp.at("s.csv")).columns, std::vector<std::string>{"sold"});
  write(temp.at("s.jsonl"), "{\"Sold\":1}\n{\"sold\":2}\n");  // one column, written in two ways
  EXPECT_EQ(read_series(temp.at("s.jsonl")).values, (std::vector<double>{1, 2}));
}

TEST(Series, SeparatorsOfSpreadsheets) {
  const TempFolder temp;
  for (const char* table :
       {"day;sold\n2024-01-01;10.5\n2024-01-02;1\n", "day\tsold\n2024-01-01\t10.5\n2024-01-02\t1\n",
        "day|sold\n2024-01-01|10.5\n2024-01-02|1\n", "sep=;\r\nday;sold\r\n2024-01-01;10.5\r\n2024-01-02;1\r\n"}) {
    write(temp.at("s.csv"), table);
    EXPECT_EQ(read_series(temp.at("s.csv")).values, (std::vector<double>{10.5, 1})) << table;
  }
  write(temp.at("s.csv"), "day;sold\n2024-01-01;10,5\n2024-01-02;9\n");
  expect_words(error_of([&] { read_series(temp.at("s.csv"), {}, "sold"); }),
               {"s.csv:2", "'10,5'", "a point for decimals"});
}

TEST(Series, RowsThatAreNotOneEvenStepAfterAnotherAreSaid) {
  const auto notes = [](const std::vector<std::string>& times, const std::string& header = "day") {
    std::string content = header + ",sold\n";
    for (const std::string& time : times) content += time + ",1.5\n";
    return join(notes_on_time(parse_table("s.csv", content), "sold"), "\n");
  };
  const std::vector<std::vector<std::string>> ways{
      {"2024-01-30", "2024-01-31", "2024-02-01", "2024-02-02", "2024-02-03", "2024-02-04"},
      {"30.01.2024", "31.01.2024", "01.02.2024", "02.02.2024", "03.02.2024", "04.02.2024"},
      {"01/30/2024", "01/31/2024", "02/01/2024", "02/02/2024", "02/03/2024", "02/04/2024"},
      {"30/01/2024", "31/01/2024", "01/02/2024", "02/02/2024", "03/02/2024", "04/02/2024"},
      {"20240130", "20240131", "20240201", "20240202", "20240203", "20240204"},
      {"30-Jan-24", "31-Jan-24", "1-Feb-24", "2-Feb-24", "3-Feb-24", "4-Feb-24"},
      {"\"Jan 30, 2024\"", "\"Jan 31, 2024\"", "\"Feb 1, 2024\"", "\"Feb 2, 2024\"", "\"Feb 3, 2024\"",
       "\"Feb 4, 2024\""},
      {"2024-01-30 22:00", "2024-01-30 23:00", "2024-01-31 00:00", "2024-01-31 01:00", "2024-01-31 02:00",
       "2024-01-31 03:00"},
      {"2024-01-30T23:59:59.5Z", "2024-01-31T00:00:00Z", "2024-01-31T00:00:00.5Z", "2024-01-31T00:00:01Z",
       "2024-01-31T02:00:01.5+02:00", "2024-01-31T00:00:02Z"},
      {"1/30/24 10:30 AM", "1/30/24 11:00 AM", "1/30/24 11:30 AM", "1/30/24 12:00 PM", "1/30/24 12:30 PM",
       "1/30/24 1:00 PM"},
      {"2023-10", "2023-11", "2023-12", "2024-01", "2024-02", "2024-03"},
      {"2023-10-31", "2023-11-30", "2023-12-31", "2024-01-31", "2024-02-29", "2024-03-31"},
      {"2023Q1", "2023Q2", "2023Q3", "2023Q4", "2024Q1", "2024Q2"},
      {"Q1 2023", "Q2 2023", "Q3 2023", "Q4 2023", "Q1 2024", "Q2 2024"},
      {"2023M10", "2023M11", "2023M12", "2024M01", "2024M02", "2024M03"},
      {"202310", "202311", "202312", "202401", "202402", "202403"},
      {"Tue 30 Jan 2024", "Wed 31 Jan 2024", "Thu 1 Feb 2024", "Fri 2 Feb 2024", "Sat 3 Feb 2024", "Sun 4 Feb 2024"},
      {"2023-W50", "2023-W51", "2023-W52", "2024-W01", "2024-W02", "2024-W03"},
      {"1999", "2000", "2001", "2002", "2003", "2004"},
      {"0", "1", "2", "3", "4", "5"},
      {"0.1", "0.2", "0.3", "0.4", "0.5", "0.6"},
      {"1700000000", "1700003600", "1700007200", "1700010800", "1700014400", "1700018000"}};
  for (const std::vector<std::string>& way : ways) {
    EXPECT_EQ(notes(way), "") << way[0];
    expect_words(notes({way[3], way[4], way[5], way[0], way[1], way[2]}), {"(day) falls in line 5", "sort them"});
    expect_words(notes({way[5], way[4], way[3], way[2], way[1], way[0]}), {"(day) descends", "newest row"});
    expect_words(notes({way[0], way[1], way[2], way[2], way[3], way[4], way[5]}),
                 {"(day) has ", " twice, in lines 4 and 5;"});
    expect_words(notes({way[0], way[1], way[2], way[3], way[5]}),
                 {"(day) has a gap before line 6 (", ", then ", "; most steps are "});
    const std::string several = notes({way[0], way[1], way[2], way[3], way[4], way[0], way[1], way[2], way[3], way[4]});
    expect_words(several, {"falls in line 7", "lines 2 and 7, and 4 more such rows", "make a table of each series"});
    const std::string by_turns = notes(
        {way[0], way[0], way[1], way[1], way[2], way[2], way[3], way[3], way[4], way[4]});
    expect_words(by_turns, {"twice, in lines 2 and 3, and 4 more such rows"});
  }
  expect_words(notes({"2024-01-01", "2024-01-02", "2024-01-09", "2024-03-01", "2024-03-02T12:00", "2024-05-01"}),
               {"uneven steps, from 1 day to "});
  expect_words(notes({"2024-01-01", "2024-01-02", "", "2024-01-04", "2024-01-05"}), {"is none in line 4"});
  expect_words(notes({"5", "3", "1", "2", "4", "0"}), {"falls in line 3"});
  // What is no time: values, words, a flag, and what the target is.
  EXPECT_EQ(notes({"3", "17", "4", "90", "5", "12"}), "");
  EXPECT_EQ(notes({"0", "0", "1", "0", "0", "1"}), "");
  EXPECT_EQ(notes({"b", "a", "b", "a"}), "");
  EXPECT_EQ(join(notes_on_time(parse_table("s.csv", "sold\n0\n1\n2\n3\n9\n8\n"), "sold"), ""), "");
  // The time in several columns.
  EXPECT_EQ(notes({"2024-01-01,22:00", "2024-01-01,23:00", "2024-01-02,00:00", "2024-01-02,01:00", "2024-01-02,02:00"},
                  "date,time"),
            "");
  expect_words(notes({"2024-01-01,0", "2024-01-01,1", "2024-01-01,3", "2024-01-01,4", "2024-01-01,5"}, "date,hour"),
               {"a gap before line 4"});
  EXPECT_EQ(notes({"2023,11", "2023,12", "2024,1", "2024,2", "2024,3"}, "year,month"), "");
  expect_words(notes({"2023,11,30", "2023,12,1", "2023,12,2", "2023,12,1", "2023,12,3"}, "year,month,day"),
               {"(year, month, day) falls in line 5", "twice, in lines 3 and 5"});
  EXPECT_EQ(notes({"2023-11,1", "2023-12,2", "2024-01,3", "2024-02,4", "2024-03,5"}, "month,rain"), "");
  // Whatever columns are taken.
  const TempFolder temp;
  write(temp.at("s.csv"), "day,sold\n3,1.5\n2,1.5\n1,1\n0,9\n");
  expect_words(join(read_series(temp.at("s.csv"), {"sold"}, "sold").notes, "\n"), {"(day) descends"});
}

TEST(Series, ScalingHoldsWhatDoublesHold) {
  const auto scaled = [](std::vector<double> values) {
    const Series series{.path = "s", .columns = {"a"}, .values = std::move(values)};
    return scaling_of(series, series.steps());
  };
  EXPECT_DOUBLE_EQ(scaled({1e8 + 0.125, 1e8 + 0.375}).std[0], 0.125);
  EXPECT_EQ(scaled({1e8 + 0.125, 1e8 + 0.375}).mean[0], 1e8 + 0.25);
  const std::vector<double> same(1000, 0.1);
  EXPECT_EQ(scaled(same).std[0], 1);
  EXPECT_EQ(scaled(same).mean[0], 0.1);
  EXPECT_DOUBLE_EQ(scaled({1.5e308, -1.5e308}).std[0], 1.5e308);
  EXPECT_DOUBLE_EQ(scaled({1e-200, 3e-200}).std[0], 1e-200);
}

TEST(Series, ScalingIsOfTheTrainingStepsAlone) {
  const Series series{.path = "s", .columns = {"a", "b"}, .values = {1, 7, 3, 7, 100, 7}};
  const Scaling scaling = scaling_of(series, 2);
  EXPECT_EQ(scaling.mean, (std::vector<double>{2, 7}));
  EXPECT_EQ(scaling.std, (std::vector<double>{1, 1}));
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
  for (const std::vector<char32_t>& bad : {std::vector<char32_t>{U'b', U'a'}, {U'a', U'a'}, {0xD800}, {0x110000}})
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
  for (const std::string bad : {"\x80", "\xE2\x82", "\xC0\xAF", "\xE0\x80\xAF", "\xF0\x80\x80\xAF", "\xED\xA0\x80",
                                "\xF4\x90\x80\x80", "\xC3(", "\xFF"})
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
  EXPECT_EQ(temperatures.values[0], 20.7);
  const Corpus shakespeare = read_corpus(shakespeare_file);
  EXPECT_EQ(shakespeare.characters.size(), 1115394u);
  EXPECT_EQ(shakespeare.vocabulary.size(), 65);
  EXPECT_EQ(shakespeare.vocabulary.decode(shakespeare.characters), read_file(shakespeare_file));
}

}  // namespace
}  // namespace neurim
