// What reading a bad file must come to.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tensor/error.h"

namespace faibench::testing_support {

/// What read(path) complains of: one line about bad input that begins with the path, which is cut off; "accepted" where it complains of nothing.
template <class Read>
std::string complaint_of(Read read, const std::filesystem::path& path) {
  try {
    (void)read(path);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::bad_input) << e.what();
    const std::string text = e.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_EQ(text.rfind(path.string() + ": ", 0), 0u) << text;
    return text.substr(path.string().size() + 2);
  }
  return "accepted";
}

}  // namespace faibench::testing_support
