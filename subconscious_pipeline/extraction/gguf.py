def find_model(s): return s.gguf
