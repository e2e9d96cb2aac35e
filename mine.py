HERE = __file__
