// A library to be preloaded into the broker, which then frees nothing: the negative control of the
// tests that say that a broker does not grow. It is no part of the product.

void free(void *block) { (void)block; }
