"""What samples can say about causes: lagged dependence, doubly robust effects, refuters."""
