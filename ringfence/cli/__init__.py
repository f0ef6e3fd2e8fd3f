"""The `ringfence` command, noun first. `main.py` knows every noun; each noun's verbs stand in a module of their own."""
