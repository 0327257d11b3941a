"""One hand-written line for each record kind, as a writer that is not ours would write it."""

EXAMPLES: dict[str, str] = {
    "header": '{"k":"header","q":1,"t":1000,"tid":7,"format":"cudagraph-doctor-trace","version":[1,0],"pid":7,"wall":'
    '1796000000000000000,"ppid":6,"host":"node3","boot":"b0","argv":["decode.py","--batch","4"],"python":"3.12.3",'
    '"implementation":"cpython","platform":"linux-x86_64","tool":"0.1.0","run":"r1","parent":"node3-6-1-a.jsonl",'
    '"rank":2,"how":"child","backend":"sim","env":{"CUDA_LAUNCH_BLOCKING":"1"},"config":{"deep":false}}',
    "capability": '{"k":"capability","q":2,"t":1001,"name":"ops","state":"unavailable","why":"torch 2.5 has no '
    'ignore_compile_internals","versions":{"torch":"2.11.0"}}',
    "evidence": '{"k":"evidence","q":3,"t":1002,"level":"python","why":"a profiler took CUPTI over"}',
    "source": '{"k":"source","q":4,"t":1003,"id":1,"path":"target:decode.py","role":"user","dist":"mydecoder","module":'
    '"__main__","hash":"00ff","text":"eJxLtFVITFYoSk0uLUpVBABBhQZr","why":"truncated"}',
    "stack": '{"k":"stack","q":5,"t":1004,"tid":7,"id":1,"frames":[[1,24,"Decoder.step",24,8,20],[1,40,"<module>",null,'
    'null,null]],"cut":3}',
    "library": '{"k":"library","q":6,"t":1005,"id":1,"name":"libcublasLt.so.13","base":"0x7f0000000000","end":"0x7f0001000000"}',
    "thread": '{"k":"thread","q":7,"t":1006,"tid":8,"name":"pin_memory","what":"started","daemon":true,"ident":139983460049216}',
    "stream": '{"k":"stream","q":8,"t":1007,"id":1,"handle":"0x5500","device":1,"kind":"external","blocking":false,'
    '"priority":-1,"stack":1}',
    "event": '{"k":"event","q":9,"t":1008,"id":1,"handle":"0x6600","timing":true,"external":true,"stack":1}',
    "capture": '{"k":"capture","q":10,"t":1009,"tid":7,"id":1,"stream":1,"mode":"thread_local","api":'
    '"cudaStreamBeginCapture","graph":1,"driver_id":12,"device":1,"pool":"0,1","shared_pool":true,"stack":1,"on":0,'
    '"handle":"0x5500"}',
    "capture-status": '{"k":"capture-status","q":11,"t":1010,"cap":1,"before":1,"after":2,"across":14,"since":13,"by":"op",'
    '"threads":[[8,2],[9,3]]}',
    "capture-end": '{"k":"capture-end","q":12,"t":1011,"cap":1,"stream":1,"api":"cudaStreamEndCapture","stack":1,"before":2,'
    '"nodes":3,"handle":"0x5500","exc":{"type":"ValueError","message":"no","code":0}}',
    "op": '{"k":"op","q":13,"t":1012,"tid":7,"name":"aten::index_put_","overload":"out","stack":1,"via":8,"stream":1,"on":1,'
    '"cap":1,"before":1,"kind":"view","tensors":[{"at":"0","ptr":"0x7f10","size":64,"dev":"cuda:0","dtype":"float32",'
    '"shape":[4,4],"offset":16,"pinned":true,"written":true,"storage":5}],"values":[["1","2.5"]],"device":0}',
    "pycall": '{"k":"pycall","q":14,"t":1013,"tid":7,"name":"torch._C._cuda_synchronize","stack":1,"cap":1,"before":1,'
    '"after":2,"exc":{"type":"torch.AcceleratorError","message":"CUDA error","code":900}}',
    "call": '{"k":"call","q":15,"t":1014,"tid":8,"api":"cuLaunchKernel","layer":"bindings","code":1,"cap":1,"before":1,'
    '"after":2,"stream":1,"on":1,"event":1,"other":2,"handle":"0x5500","event_handle":"0x6600","inflight":true,"took":900,'
    '"driver_id":12,"node_handle":"0xcc00","returns":["0x7f0000000123"],"no_stack":"not a Python thread","stack":1,"via":7,"op":13,"lib":"libcublasLt.so.13","ctx":1,"device":0,'
    '"size":128,"ptr":"0x7f10","ptrs":["0x7f10","0x7f20"],"kernel":"gemm","grid":[1,2,3],"block":[128,1,1],"smem":4096,'
    '"node":4,"mode":"relaxed","exc":{"type":"RuntimeError","message":"x"}}',
    "outcome": '{"k":"outcome","q":16,"t":1015,"tid":7,"of":13,"code":900,"after":2,"exc":{"type":"RuntimeError","message":'
    '"x","code":900},"tensors":[{"at":"r0","ptr":"0x7f20","size":4,"dev":"cuda:0"}],"node":4,"nodes":9,"node_handle":"0xcc00","ptr":"0x7f30","took":900}',
    "launch": '{"k":"launch","q":17,"t":1016,"kernel":"gemm","stream":1,"on":1,"cap":1,"function":1,"grid":[2,1,1],"block":'
    '[64,1,1],"smem":16,"ptrs":["0x7f10"],"node":4,"stack":1,"op":13}',
    "copy": '{"k":"copy","q":18,"t":1017,"src":"0x10","dst":"0x7f10","size":64,"direction":"h2d","pinned":true,"blocking":true,'
    '"stream":1,"on":1,"cap":1,"node":5,"stack":1,"op":13}',
    "alloc": '{"k":"alloc","q":19,"t":1018,"id":1,"ptr":"0x7f10","size":64,"space":"pool","pool":"0,1","stream":1,"cap":1,'
    '"api":"cudaMallocAsync","stack":1}',
    "storage": '{"k":"storage","q":44,"t":1043,"id":1,"ptr":"0x7f10","size":64,"dev":"cuda:0","cap":1,"inside":true,'
    '"space":"pinned","pool":"0,1","owner":"buffer","watched":false,"stack":1}',
    "free": '{"k":"free","q":20,"t":1019,"ptr":"0x7f10","id":1,"api":"cudaFree","stack":1,"noticed":true,"guess":true,"moved":'
    '"0x7f30","now":"reused","owner":"a tensor","exec":1,"replay":3}',
    "rewrite": '{"k":"rewrite","q":45,"t":1044,"storage":1,"what":"written","exec":1,"replay":3,"pending":true,"before":2,'
    '"after":3,"stack":1,"noticed":true}',
    "touch": '{"k":"touch","q":46,"t":1045,"storage":1,"what":"write","name":"aten::copy_","stream":1,"ptr":"0x7f10","size":8,'
    '"whole":false,"version":3,"stack":1}',
    "graph": '{"k":"graph","q":21,"t":1020,"id":1,"handle":"0x8800","cap":1,"nodes":9,"edges":8,"kept":true,"pool":"0,1","stack":1}',
    "node": '{"k":"node","q":22,"t":1021,"id":4,"graph":1,"type":"kernel","kernel":"gemm","grid":[1,1,1],"block":[32,1,1],'
    '"smem":0,"regs":64,"static_smem":1,"max_smem":2,"local":3,"ptrs":["0x7f10"],"words":["0x7f20"],"opaque":true,"src":"0x7f30",'
    '"dst":"0x7f40","size":64,"op":13,"parent":3,"handle":"0xcc00","context":"0xbb00","ctx":1}',
    "edge": '{"k":"edge","q":23,"t":1022,"graph":1,"source":4,"target":5,"type":"programmatic"}',
    "exec": '{"k":"exec","q":24,"t":1023,"id":1,"graph":1,"handle":"0x9900","code":0,"flags":1,"stack":1,"slot":2}',
    "update": '{"k":"update","q":25,"t":1024,"exec":1,"graph":2,"code":910,"result":"topology","node":4,"stack":1}',
    "replay": '{"k":"replay","q":26,"t":1025,"tid":7,"exec":1,"graph":1,"count":40,"done":39,"first":true,"code":700,"exc":'
    '{"type":"RuntimeError","message":"x"},"stream":1,"on":1,"cap":1,"stack":1,"after":2,"total":true}',
    "destroy": '{"k":"destroy","q":27,"t":1026,"what":"exec","id":1,"stack":1,"code":0}',
    "module": '{"k":"module","q":28,"t":1027,"id":1,"what":"load","handle":"0xaa00","size":4096,"name":"triton","cap":1,'
    '"took":5000,"code":0,"stack":1}',
    "function": '{"k":"function","q":29,"t":1028,"id":1,"name":"gemm","module":1,"attributes":{"registers":64}}',
    "context": '{"k":"context","q":30,"t":1029,"id":1,"what":"current","handle":"0xbb00","device":1,"primary":true,"stack":1}',
    "slot": '{"k":"slot","q":31,"t":1030,"id":1,"path":"self.layers[3].scale","kind":"attribute","cap":1,"read":false,'
    '"written":true,"first":"write","type":"float","value":"0.5","ptr":"0x7f10","storage":1,"shape":[2],"version":3,"role":'
    '"buffer","left":"0.6","left_ptr":"0x7f20","reads":[[1,3,"f",3,4,9]],"writes":[[1,4,"f",4,4,9]],"stack":1}',
    "slot-change": '{"k":"slot-change","q":32,"t":1031,"slot":1,"value":"0.7","ptr":"0x7f20","exec":1,"replay":3,"stack":1,'
    '"type":"float","storage":2,"shape":[2],"refreshed":false,"guess":true,"given":"args[1]"}',
    "slot-use": '{"k":"slot-use","q":47,"t":1046,"slot":1,"exec":1,"replay":3,"stack":1,"guess":true}',
    "output": '{"k":"output","q":48,"t":1047,"id":1,"cap":1,"storage":1,"ptr":"0x7f10","shape":[2],"path":"out","role":"result",'
    '"stack":1}',
    "held": '{"k":"held","q":49,"t":1048,"output":1,"exec":1,"replay":3,"holder":"results","holder_type":"list","count":2,'
    '"stack":1,"guess":true,"read_stack":1}',
    "gc": '{"k":"gc","q":33,"t":1032,"phase":"stop","generation":2,"collected":17,"cap":1,"stack":1}',
    "exception": '{"k":"exception","q":34,"t":1033,"where":"capture-exit","chain":[{"type":"torch.AcceleratorError","message":'
    '"CUDA error","stack":1,"code":901,"how":"cause"}],"cap":1,"thread":"MainThread"}',
    "state": '{"k":"state","q":35,"t":1034,"cap":1,"stream_current":true,"stream":1,"rng":"capturing","pool":"0,1","sticky":0,'
    '"status":0}',
    "log": '{"k":"log","q":36,"t":1035,"message":"Returning 900","api":"cuMemAlloc_v2","code":900,"thread":8,"level":"warning",'
    '"cap":1,"after":13}',
    "limit": '{"k":"limit","q":37,"t":1036,"what":"NCCL","reason":"not simulated","cap":1,"stack":1,"fatal":true}',
    "race": '{"k":"race","q":43,"t":1042,"what":"write after unordered read","ptr":"0x7f10","size":512,"first":2,"stream":1,'
    '"first_name":"cuGraphLaunch","first_stack":1,"name":"aten::mul_","cap":1,"stack":1}',
    "process": '{"k":"process","q":38,"t":1037,"child":99,"how":"spawn","followed":false,"why":"not Python","argv":["nvcc"]}',
    "probe-error": '{"k":"probe-error","q":39,"t":1038,"hook":"gc","error":"ValueError: x","count":3,"removed":true,"where":'
    '"gc.py:12"}',
    "lost": '{"k":"lost","q":40,"t":1039,"count":12,"why":"No space left on device","bytes":4096}',
    "hand-over": '{"k":"hand-over","q":41,"t":1040,"what":"taken","to":"torch.profiler","why":"the target profiles"}',
    "seal": '{"k":"seal","q":42,"t":1041,"returncode":-11,"signal":"SIGSEGV","core":true,"timed_out":true,"torn":true,"fault":'
    '"Fatal Python error","rss":1048576,"user":1.5}',
}
