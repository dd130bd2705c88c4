def of_length(text):
    return -float(len(text))
