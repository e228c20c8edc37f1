"""A model as one page that a browser opens: the graph drawn, gradients beside what they are of."""
