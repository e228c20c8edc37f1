
op_control_onnx_while_2€
M
go
xxs7s8"	ONNXWhile*»
bodyB²
body9
q1
q1t4"Mul
t4t4"Tanh
q1
t4t5"Mul
t5t5"Tanh
t5q1"Tanh4c26"ConstantFill*	
shape0*	
dtype*	
value:it2:cd3:q1Bc26Bt5Bt5Bq1*
has_trip_count*
has_cond