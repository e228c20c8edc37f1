"""Rules for the operators of the folder `rnn` of ONNX: LSTM, GRU, RNN."""
