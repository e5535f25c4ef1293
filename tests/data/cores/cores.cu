__global__ void copy_cols(float*y,const float*x,int n){long i=blockIdx.x*256l+threadIdx.x;long r=i%n,c=i/n;y[i]=x[r*n+c];}
__global__ void copy_rows(float*y,const float*x,int n){long i=blockIdx.x*256l+threadIdx.x;y[i]=x[i];}
__global__ void taps_cols(float*y,const float*x,int n){int t=threadIdx.x;float s=0;const float*p=x+(blockIdx.x%64)*8192;for(int k=0;k<n;k++)s+=__ldg(p+((t*32+k)&8191));y[blockIdx.x*256l+t]=s;}
__global__ void taps_rows(float*y,const float*x,int n){int t=threadIdx.x;float s=0;const float*p=x+(blockIdx.x%64)*8192;for(int k=0;k<n;k++)s+=__ldg(p+((t+k*32)&8191));y[blockIdx.x*256l+t]=s;}
__global__ void sum(float*y,const float*x,long n){float s=0;
#pragma unroll 1
for(long i=blockIdx.x*256l+threadIdx.x;i<n;i+=gridDim.x*256l)s+=x[i];atomicAdd(y,s);}
__global__ void chain64(double*y,double a,int n){double v=threadIdx.x,w=a;
#pragma unroll 1
for(int k=0;k<n;k++){v=v*a+w;w=w+v;}y[blockIdx.x*32+threadIdx.x]=v+w;}
int main(){int n=8192;float*x,*y;cudaMalloc(&x,2l<<28);cudaMalloc(&y,2l<<28);cudaMemset(x,0,2l<<28);long g=(long)n*n/256;copy_cols<<<g,256>>>(y,x,n);copy_rows<<<g,256>>>(y,x,n);taps_cols<<<1056,256>>>(y,x,256);taps_rows<<<1056,256>>>(y,x,256);sum<<<32,256>>>(y,x,1<<22);sum<<<528,256>>>(y,x,1<<26);chain64<<<528,32>>>((double*)y,.5,4096);return cudaDeviceSynchronize();}
