// SHA-256 against the examples of FIPS 180 and against itself in pieces; XXH64 against answers of xxHash's own library.
#include "neurim/base/sha256.h"

#include <gtest/gtest.h>

#include <string>

#include "neurim/base/xxh64.h"

namespace neurim {
namespace {

std::string sha256_of(const std::string& message, std::size_t piece) {
  Sha256 sha;
  const auto bytes = std::as_bytes(std::span(message));
  for (std::size_t i = 0; i < bytes.size(); i += piece) sha.add(bytes.subspan(i, std::min(piece, bytes.size() - i)));
  return sha.hex();
}

TEST(Sha256, KnownAnswers) {
  const std::pair<std::string, const char*> answers[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1'000'000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
  for (const auto& [message, digest] : answers)
    for (const std::size_t piece : {1, 7, 64, 1000, 1'000'000}) EXPECT_EQ(sha256_of(message, piece), digest);
}

TEST(Xxh64, KnownAnswers) {
  const std::pair<std::string, const char*> answers[] = {
      {"", "ef46db3751d8e999"},
      {"a", "d24ec4f1a98c6e5b"},
      {"abc", "44bc2cf5ad770999"},
      {"Nobody inspects the spammish repetition", "fbcea83c8a378bf1"}};
  for (const auto& [message, sum] : answers) EXPECT_EQ(xxh64_hex(std::as_bytes(std::span(message))), sum) << message;
}

TEST(Sha256, EveryLengthOfTheLastBlock) {
  for (std::size_t size = 0; size < 200; ++size) {
    const std::string message(size, 'x');
    EXPECT_EQ(sha256_of(message, 200), sha256_of(message, 3)) << size;
  }
}

}  // namespace
}  // namespace neurim
