// Named fields of JSON objects, written and read with errors that name the field. Private to this part.
#pragma once
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tensor/error.h"

namespace faibench::json_fields {

using Json = nlohmann::ordered_json;

inline Error wrong(std::string_view name, std::string_view wanted, const Json& found) {
  return {Error::Kind::bad_input, "field '" + std::string(name) + "' is " + found.type_name() + ", must be " + std::string(wanted)};
}

inline Json parse(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    throw Error(Error::Kind::bad_input, "not valid JSON at byte " + std::to_string(e.byte));
  } catch (const Json::exception&) {  // a number out of range
    throw Error(Error::Kind::bad_input, "not valid JSON: a number is out of range");
  }
}

/// Parses `text`, which must be an object.
inline Json parse_object(std::string_view text) {
  Json json = parse(text);
  if (!json.is_object()) throw Error(Error::Kind::bad_input, std::string("is ") + json.type_name() + ", must be an object");
  return json;
}

/// On one line. Bytes that are not UTF-8 become U+FFFD, so that no program's stderr can make a record unwritable.
inline std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

inline const Json& required(const Json& object, std::string_view name) {
  const auto found = object.find(name);
  if (found == object.end()) throw Error(Error::Kind::bad_input, "field '" + std::string(name) + "' is missing");
  return *found;
}

inline Json to_value(const std::string& text) { return text; }
inline Json to_value(bool flag) { return flag; }
inline Json to_value(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }
template <class T>
Json to_value(T number) requires std::is_integral_v<T> { return number; }
inline Json to_value(const std::vector<std::string>& texts) { return Json(texts); }

inline void from_value(std::string_view name, const Json& json, std::string& text) {
  if (!json.is_string()) throw wrong(name, "a string", json);
  text = json.get<std::string>();
}
inline void from_value(std::string_view name, const Json& json, bool& flag) {
  if (!json.is_boolean()) throw wrong(name, "true or false", json);
  flag = json.get<bool>();
}
inline void from_value(std::string_view name, const Json& json, double& number) {
  if (json.is_null()) {
    number = 0;
    return;
  }
  if (!json.is_number()) throw wrong(name, "a number", json);
  number = json.get<double>();
}
template <class T>
void from_value(std::string_view name, const Json& json, T& number) requires std::is_integral_v<T> {
  if (!json.is_number_integer()) throw wrong(name, "an integer", json);
  const bool fits = json.is_number_unsigned() ? json.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<T>::max())
                                              : std::is_signed_v<T> && json.get<std::int64_t>() >= static_cast<std::int64_t>(std::numeric_limits<T>::min());
  if (!fits) throw Error(Error::Kind::bad_input, "field '" + std::string(name) + "' is out of range: " + json.dump());
  number = json.get<T>();
}
inline void from_value(std::string_view name, const Json& json, std::vector<std::string>& texts) {
  if (!json.is_array()) throw wrong(name, "an array of strings", json);
  texts.clear();
  for (const Json& item : json) {
    if (!item.is_string()) throw wrong(name, "an array of strings", item);
    texts.push_back(item.get<std::string>());
  }
}

template <class T>
Json to_value(const std::vector<T>& numbers) requires std::is_integral_v<T> { return Json(numbers); }
template <class T>
void from_value(std::string_view name, const Json& json, std::vector<T>& numbers) requires std::is_integral_v<T> {
  if (!json.is_array()) throw wrong(name, "an array of integers", json);
  numbers.clear();
  for (const Json& item : json) from_value(name, item, numbers.emplace_back());
}

/// Reads one required field of `object`.
template <class T>
void read(const Json& object, std::string_view name, T& value) { from_value(name, required(object, name), value); }

}  // namespace faibench::json_fields
