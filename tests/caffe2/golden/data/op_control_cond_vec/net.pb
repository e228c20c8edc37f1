
op_control_cond_vec^
k1"While*0
loop_netB$
l
i
onei"Add
i
Tk"LE*
cond_netB
cc
kk1"Copy