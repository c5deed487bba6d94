// A library without the function.
extern "C" int something_else() { return 0; }
